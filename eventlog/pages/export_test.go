package pages

// KeepFrames is exported for the external tests.
const KeepFrames = keepFrames
