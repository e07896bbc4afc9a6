/** Copy the ui module beside the compiled panel, and its style sheet beside the panel's. */
const fs = require('fs');
fs.cpSync('../onetool_ipy/ui/src', 'lib/ui', { recursive: true });
fs.copyFileSync('../onetool_ipy/ui/style.css', 'style/ui.css');
