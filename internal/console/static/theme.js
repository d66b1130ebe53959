// Runs before the first paint, as a classic script: applies the theme chosen earlier.
(() => {
  let theme = null;
  try { theme = localStorage.getItem('isr-theme'); } catch { /* storage is blocked */ }
  if (theme === 'light' || theme === 'dark') document.documentElement.dataset.theme = theme;
})();
