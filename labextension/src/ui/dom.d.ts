type Child = Node | string | number | null | undefined | false | Child[];

export function h(tag: string, props?: Record<string, unknown> | null, ...children: Child[]): any;
export function fill(element: Element, ...children: Child[]): any;
export function tabKeys(tabs: HTMLElement): any;
export function show(element: HTMLElement, isShown: boolean): any;
