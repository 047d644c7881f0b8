package pages

// KeepFrames is what the external tests look at.
const KeepFrames = keepFrames
