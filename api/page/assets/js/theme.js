// Runs before the first paint, so that a chosen theme does not flash. No module:
// modules run after the page is parsed.
(() => {
  let theme = null;
  try { theme = localStorage.getItem('theme'); } catch { /* storage is off: the system's theme */ }
  if (theme === 'light' || theme === 'dark') document.documentElement.dataset.theme = theme;
})();
