/** The JupyterLab plugin of onetool_ipy: puts the Tools panel into the left side bar. */

import type {
  JupyterFrontEnd,
  JupyterFrontEndPlugin
} from '@jupyterlab/application';
import { INotebookTracker } from '@jupyterlab/notebook';

import { ToolsPanel } from './panel';

const plugin: JupyterFrontEndPlugin<void> = {
  id: 'onetool-ipy:panel',
  description: 'Shows the tools of the kernel of the notebook in front.',
  autoStart: true,
  requires: [INotebookTracker],
  activate: (app: JupyterFrontEnd, tracker: INotebookTracker) => {
    app.shell.add(new ToolsPanel(tracker), 'left', { rank: 900 });
  }
};

export default plugin;
