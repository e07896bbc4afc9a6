/** A toolbox, in the colours of the theme. */

import { LabIcon } from '@jupyterlab/ui-components';

export const toolsIcon = new LabIcon({
  name: 'onetool-ipy:tools',
  svgstr: `<svg xmlns="http://www.w3.org/2000/svg" width="16" viewBox="0 0 24 24">
  <path class="jp-icon3" fill="#616161" d="M9 4h6a2 2 0 0 1 2 2v2h3a2 2 0 0 1 2 2v3h-6v-1h-3v1h-2v-1H8v1H2v-3a2 2 0 0 1 2-2h3V6a2 2 0 0 1 2-2zm0 2v2h6V6z"/>
  <path class="jp-icon3" fill="#616161" d="M2 14.5h6v1.5h3v-1.5h2v1.5h3v-1.5h6V18a2 2 0 0 1-2 2H4a2 2 0 0 1-2-2z"/>
</svg>`
});
