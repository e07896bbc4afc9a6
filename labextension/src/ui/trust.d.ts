export interface IWouldRun {
  folder: string;
  packFiles: string[];
  servers: { name: string; runs: string; variables: string[]; secrets: string[]; changes: string[] }[];
  httpTools: number;
  hosts: string[];
  snippets: string[];
}

export interface ITrust {
  folder: string;
  isTrusted: boolean;
  how: string;
  wouldRun: IWouldRun;
}

export function needsTrust(trust: ITrust | null | undefined): boolean;
export function trustForm(
  found: IWouldRun,
  options: { server?: string; onYes: () => void; onNo: () => void }
): { element: HTMLElement; buttons: HTMLElement };
