"use strict";(self.rspackChunkonetool_ipy=self.rspackChunkonetool_ipy||[]).push([[2],{25(o,t,e){var r=e(26),a=e.n(r),n=e(27),i=e.n(n),x=e(28),l=i()(a());l.i(x.A),l.push([o.id,`.onetool-Panel {
  background: var(--jp-layout-color1);
  color: var(--jp-ui-font-color1);
  overflow: hidden;
  min-width: 250px;
}

.onetool-Panel .onetool-Panel-inner {
  border: 0;
  border-radius: 0;
  height: 100%;
  display: flex;
  flex-direction: column;
}

.onetool-Panel .onetool-Panel-tabs {
  flex-wrap: wrap;
  gap: 0;
  margin: 0;
  background: var(--jp-layout-color2);
}

.onetool-Panel .onetool-Panel-tabs .otx-tab {
  flex: 1 1 auto;
  padding: 6px 2px;
  white-space: nowrap;
  font-size: 12px;
}

.onetool-Panel-count {
  padding: 0 3px;
  margin-left: 1px;
  border-radius: 7px;
  background: var(--jp-error-color0);
  color: var(--jp-ui-inverse-font-color1);
  font-size: 9px;
}

.onetool-Panel-foot {
  flex: none;
  display: flex;
  flex-direction: column;
  max-height: 55%;
  border-top: 1px solid var(--jp-border-color2);
}

.onetool-Panel-foot > .otx-bar {
  flex: none;
  justify-content: space-between;
  padding: 3px 6px 3px 10px;
}

.onetool-Panel-problems {
  flex: 1;
}

.onetool-Panel-health {
  min-height: 0;
  overflow: auto;
  padding: 8px 10px;
  border-bottom: 1px solid var(--jp-border-color2);
}

.onetool-Panel-beginnings {
  flex: none;
  display: flex;
  flex-wrap: wrap;
  gap: 4px;
  padding: 8px 10px;
  border-bottom: 1px solid var(--jp-border-color2);
}

.onetool-Panel-beginnings > p {
  flex-basis: 100%;
  margin: 0;
}

.onetool-Panel-beginnings > button {
  flex: 1 1 auto;
}

.onetool-Usage {
  overflow: auto;
  background: var(--jp-layout-color1);
}

.onetool-Usage > .otx-usage {
  border: 0;
  padding: 12px 16px;
}

.onetool-Sources .otx-server-buttons .otx-small {
  padding: 1px 5px;
}

.onetool-Sources .otx-server {
  padding: 6px 0;
  border: 0;
  border-bottom: 1px solid var(--jp-border-color2);
  border-radius: 0;
}

.onetool-Add {
  display: grid;
  grid-template-columns: minmax(0, 1fr);
  gap: 6px;
  margin-bottom: 8px;
}

.onetool-Add > p {
  margin: 0;
  overflow-wrap: anywhere;
}

.onetool-Add > p:empty {
  display: none;
}

.onetool-Add-runs {
  max-height: 12em;
  overflow-y: auto;
  padding: 4px 6px;
  background: var(--jp-layout-color2);
  border-radius: 3px;
}

.onetool-Add-secret,
.onetool-Panel .otx-secret-field label {
  display: grid;
  gap: 2px;
  overflow-wrap: anywhere;
}

.onetool-Add .otx-bar {
  flex-wrap: wrap;
}

.onetool-Panel .onetool-Panel-tabs .otx-tab[aria-selected='true'] {
  background: var(--jp-layout-color1);
}

.onetool-Panel-view {
  flex: 1;
  min-height: 0;
  overflow: auto;
}

.onetool-Panel-view:focus {
  outline: none;
}

.onetool-Panel-status {
  display: grid;
  gap: 8px;
  justify-items: start;
  padding: 8px 10px;
  border-bottom: 1px solid var(--jp-border-color2);
}

.onetool-Panel-status .otx-failure {
  margin: 0;
  justify-self: stretch;
}

.onetool-Panel .onetool-Panel-tools,
.onetool-Panel .onetool-Panel-ask {
  overflow: hidden;
}

.onetool-Panel .otx-browser {
  border: 0;
  height: 100%;
  display: flex;
  flex-direction: column;
}

.onetool-Panel .otx-head {
  flex: none;
  gap: 4px;
  border-bottom: 0;
  padding-bottom: 0;
}

.onetool-Panel .otx-head select.otx-input {
  flex: 1 1 9ch;
  min-width: 9ch;
  max-width: none;
  padding: 3px 0 3px 3px;
  font-size: 12px;
}

.onetool-Panel .otx-head .otx-total {
  min-width: 0;
}

.onetool-Panel .otx-body {
  flex: 1;
  min-height: 0;
  height: auto;
}

.onetool-Panel-sources,
.onetool-Panel-view > .otx-muted {
  padding: 8px 10px;
}

.onetool-Sources .onetool-Sources-list > h3 {
  font-size: 13px;
  font-weight: 600;
  margin: 16px 0 4px;
}

.onetool-Sources .otx-bar {
  justify-content: start;
  gap: 4px;
}

.onetool-Sources > .otx-bar .otx-small {
  padding: 1px 5px;
}

.onetool-Sources .onetool-Sources-bar {
  justify-content: space-between;
  flex-wrap: nowrap;
}

.onetool-Sources-project {
  font-size: 12px;
  overflow-wrap: anywhere;
}

.onetool-Bundle {
  border-bottom: 1px solid var(--jp-border-color2);
  padding: 6px 0;
}

.onetool-Bundle-head,
.onetool-Tool {
  display: flex;
  align-items: center;
  gap: 6px;
}

.onetool-Bundle-head {
  flex-wrap: wrap;
}

.onetool-Bundle-head > .otx-expand {
  flex: 1 1 40%;
  overflow-wrap: anywhere;
}

.onetool-Tool .otx-tool-name {
  white-space: normal;
  overflow-wrap: anywhere;
}

.onetool-Tool {
  padding: 4px 0 4px 13px;
}

.onetool-Bundle input[type='checkbox'] {
  accent-color: var(--jp-brand-color1);
  margin: 0;
  flex: none;
}

/* The question of a delete button lies over its row: nothing moves under the pointer. */
.onetool-Delete {
  position: relative;
  flex: none;
}

.onetool-Delete-question {
  position: absolute;
  inset: -1px -1px -1px auto;
  padding: inherit;
  max-width: 190px;
  overflow: hidden;
  text-overflow: ellipsis;
  white-space: nowrap;
  border: 1px solid var(--jp-error-color1);
  border-radius: 3px;
  background: var(--jp-layout-color1);
  color: var(--jp-error-color1);
}

.onetool-Import {
  overflow: auto;
  background: var(--jp-layout-color1);
}

.onetool-Import-page {
  display: grid;
  grid-template-columns: minmax(0, 1fr);
  gap: 10px;
  max-width: 1100px;
  padding: 12px 16px 0;
  box-sizing: border-box;
}

.onetool-Import > .otx.onetool-Import-page {
  border: 0;
}

.onetool-Import-page [inert] {
  opacity: 0.6;
}

.onetool-Import-page h2 {
  margin: 0;
  font-size: 18px;
}

.onetool-Import-page p {
  margin: 0;
}

.onetool-Import-page .otx-bar {
  display: flex;
  flex-wrap: wrap;
  gap: 6px;
  align-items: center;
}

.onetool-Import-page .otx-bar > input {
  flex: 1 1 16em;
  min-width: 0;
}

.onetool-Import-source,
.onetool-Import-choice,
.onetool-Import-settings {
  display: grid;
  grid-template-columns: minmax(0, 1fr);
  gap: 8px;
}

.onetool-Import-source textarea {
  width: 100%;
  box-sizing: border-box;
}

.onetool-Import-about {
  font-weight: 600;
  overflow-wrap: anywhere;
}

.onetool-Import-groups {
  max-height: max(46vh, calc(100vh - 420px));
  overflow: auto;
  border-top: 1px solid var(--jp-border-color2);
  border-bottom: 1px solid var(--jp-border-color2);
}

.onetool-Import-tag {
  display: grid;
  grid-template-columns: auto minmax(0, 1fr);
  gap: 6px;
  padding: 4px 0;
}

.onetool-Import-tag > input {
  margin: 3px 0 0;
  align-self: start;
}

.onetool-Import summary {
  cursor: pointer;
}

.onetool-Import ul {
  margin: 4px 0;
  padding-left: 18px;
  overflow-wrap: anywhere;
}

.onetool-Import-row {
  display: grid;
  grid-template-columns: auto 4.5em minmax(8em, 1fr) minmax(8em, 1fr) minmax(0, 1.4fr);
  gap: 8px;
  align-items: baseline;
  padding: 2px 0;
}

.onetool-Import-row:hover {
  background: var(--jp-layout-color2);
}

.onetool-Import-row > span {
  overflow: hidden;
  text-overflow: ellipsis;
  white-space: nowrap;
}

.onetool-Import input[type='checkbox'] {
  accent-color: var(--jp-brand-color1);
}

.onetool-Import-method {
  font-size: 11px;
  font-weight: 600;
  color: var(--jp-warn-color0);
}

.onetool-Import-method[data-method='GET'],
.onetool-Import-method[data-method='HEAD'] {
  color: var(--jp-success-color0);
}

.onetool-Import-method[data-method='DELETE'] {
  color: var(--jp-error-color0);
}

.onetool-Import-fields {
  display: grid;
  grid-template-columns: repeat(auto-fit, minmax(14em, 1fr));
  gap: 10px;
}

.onetool-Import-field,
.onetool-Import-field > label {
  display: grid;
  gap: 2px;
  align-content: start;
}

.onetool-Import-field > label > span {
  font-weight: 600;
}

.onetool-Import-blocked {
  display: flex;
  flex-wrap: wrap;
  gap: 8px;
  align-items: center;
}

.onetool-Import-done {
  font-weight: 600;
  color: var(--jp-success-color0);
}

.onetool-Import .onetool-Import-footer {
  position: sticky;
  bottom: 0;
  background: var(--jp-layout-color1);
  border-top: 1px solid var(--jp-border-color2);
  padding: 8px 0;
}

@media (max-width: 1000px) {
  .onetool-Import-row {
    grid-template-columns: auto 4.5em minmax(0, 1fr) minmax(0, 1fr);
  }

  .onetool-Import-row > :last-child {
    display: none;
  }
}

.onetool-Status {
  background: none;
  border: 0;
  color: var(--jp-ui-font-color1);
  font: inherit;
  font-size: var(--jp-ui-font-size1);
  cursor: pointer;
}

.onetool-Status:focus-visible {
  outline: 2px solid var(--jp-brand-color1);
  outline-offset: -2px;
}

.onetool-Bundle .otx-expand[aria-expanded='true']::before {
  content: '▾ ' / '';
}

.onetool-Sources .otx-notice {
  border: 0;
  border-radius: 3px;
  overflow-wrap: anywhere;
}

.onetool-Status.onetool-mod-untrusted {
  color: var(--jp-warn-color0);
  font-weight: 600;
}

.onetool-Question .otx-trust {
  margin: 4px 0;
  max-width: 60em;
}

.jp-OutputArea .otx-open[data-commandlinker-command] {
  display: inline-block !important;
  margin-top: 4px;
  padding: 1px 9px;
  font: inherit;
  font-size: 12px;
  color: var(--jp-ui-font-color1);
  background: var(--jp-layout-color1);
  border: 1px solid var(--jp-border-color1);
  border-radius: 3px;
  cursor: pointer;
}

.jp-OutputArea .otx-open:hover {
  background: var(--jp-layout-color2);
}

.onetool-Result {
  max-width: none;
  overflow: auto;
}

.jp-OutputArea .otx-link:has(> .otx-go[data-commandlinker-command]) {
  display: inline-block;
  position: relative;
  color: var(--jp-content-link-color);
}

.jp-OutputArea .otx-link:hover {
  text-decoration: underline;
}

.jp-OutputArea .otx-go[data-commandlinker-command] {
  display: block !important;
  position: absolute;
  inset: 0;
  padding: 0;
  border: 0;
  border-radius: 2px;
  background: none;
  cursor: pointer;
}

.jp-OutputArea .otx-go:focus-visible {
  outline: 2px solid var(--jp-brand-color1);
  outline-offset: 1px;
}

/* The text of a model begins where all that we print does. */
.jp-OutputArea:has(.otx-answer) > .jp-OutputArea-child > .jp-RenderedMarkdown {
  padding-left: calc(var(--jp-code-font-size) * .602);
}

/* A shadow at the edge behind which a box has more to show. */
.jp-OutputArea .otx-scroll {
  --otx-paper: var(--otx-background, var(--jp-layout-color0));
  --otx-shade: rgb(0 0 0 / 25%);
  background:
    linear-gradient(to right, var(--otx-paper) 40%, transparent) left / 24px 100% no-repeat local,
    linear-gradient(to left, var(--otx-paper) 40%, transparent) right / 24px 100% no-repeat local,
    linear-gradient(to bottom, var(--otx-paper) 40%, transparent) top / 100% 24px no-repeat local,
    linear-gradient(to top, var(--otx-paper) 40%, transparent) bottom / 100% 24px no-repeat local,
    linear-gradient(to right, var(--otx-shade), transparent) left / 10px 100% no-repeat scroll,
    linear-gradient(to left, var(--otx-shade), transparent) right / 10px 100% no-repeat scroll,
    linear-gradient(to bottom, var(--otx-shade), transparent) top / 100% 10px no-repeat scroll,
    linear-gradient(to top, var(--otx-shade), transparent) bottom / 100% 10px no-repeat scroll;
}

body[data-jp-theme-light='false'] .jp-OutputArea .otx-scroll {
  --otx-shade: rgb(0 0 0 / 80%);
}

.jp-OutputArea .otx-scroll tr {
  background: none !important;
}

.onetool-HttpTool.otx {
  max-width: none;
  overflow: auto;
  border: 0;
}

.onetool-Bundle-report ul {
  list-style: none;
  margin: 0 0 4px;
  padding: 0;
}

.onetool-Bundle-report li {
  overflow-wrap: anywhere;
  padding: 1px 0;
}

.onetool-Sources-none {
  padding: 6px 0 10px;
}

.onetool-Bundle-environment {
  order: 1;
  flex: 1 0 100%;
  display: flex;
  align-items: center;
  gap: 6px;
  padding-left: 13px;
}

.onetool-Bundle-environment > select.otx-input {
  flex: 1;
  min-width: 0;
}

.onetool-Import-choice > button {
  justify-self: start;
}

/* On a low screen the page scrolls, and nothing in it. */
@media (max-height: 760px) {
  .onetool-Import-groups {
    max-height: none;
    overflow: visible;
  }
}

.onetool-Bundle-report .otx-outcome {
  display: inline-block;
}
`,""]),e.d(t,{},{A:l})},28(o,t,e){var r=e(26),a=e.n(r),n=e(27),i=(e.n(n))()(a());i.push([o.id,`.jp-OutputArea-child:has(.otx-picture):has(+ .jp-OutputArea-child .otx) { display: none; }
/* JupyterLab's colours, with fallbacks for other front ends. Every rule is scoped to .otx. */
.otx {
  --otx-background: var(--jp-layout-color1, #fff);
  --otx-background-raised: var(--jp-layout-color2, #f3f3f3);
  --otx-line: var(--jp-border-color2, #d0d0d0);
  --otx-field: var(--jp-border-color1, #8a8a8a);
  --otx-text: var(--jp-ui-font-color1, #212121);
  --otx-muted-color: var(--jp-ui-font-color2, #5a5a5a);
  --otx-brand: var(--jp-brand-color1, #1565c0);
  --otx-ok-color: var(--jp-success-color1, #2e7d32);
  --otx-error-color: var(--jp-error-color1, #c62828);
  --otx-mark: color-mix(in srgb, var(--otx-brand) 22%, transparent);
  --otx-mono: var(--jp-code-font-family, ui-monospace, Menlo, Consolas, monospace);
  box-sizing: border-box;
  color: var(--otx-text);
  background: var(--otx-background);
  font-family: var(--jp-ui-font-family, system-ui, sans-serif);
  font-size: 13px;
  line-height: 1.4;
  border: 1px solid var(--otx-line);
  border-radius: 4px;
  container-type: inline-size;
  max-width: 1600px;
}
.otx *, .otx *::before { box-sizing: border-box; }
.otx [hidden] { display: none !important; }
.otx h3, .otx p, .otx figure { margin: 0; }
.otx pre, .otx code, .otx kbd { font-family: var(--otx-mono); font-size: 12px; }
.otx pre { margin: 0; white-space: pre-wrap; overflow-wrap: anywhere; word-break: normal; }
.otx mark { background: var(--otx-mark); color: inherit; border-radius: 2px; }
.otx :focus-visible { outline: 2px solid var(--otx-brand); outline-offset: -1px; }
.otx-muted { color: var(--otx-muted-color); }

.otx-input, .otx button {
  font: inherit;
  color: inherit;
  background: var(--otx-background);
  border: 1px solid var(--otx-field);
  border-radius: 3px;
  padding: 3px 6px;
  min-width: 0;
}
.otx-input { width: 100%; }
.otx select.otx-input, .onetool-Panel select.otx-input {
  appearance: none;
  padding-right: 20px;
  background-image: linear-gradient(45deg, transparent 50%, var(--otx-muted-color) 50%), linear-gradient(135deg, var(--otx-muted-color) 50%, transparent 50%);
  background-position: calc(100% - 11px) 50%, calc(100% - 7px) 50%;
  background-size: 4px 4px;
  background-repeat: no-repeat;
  text-overflow: ellipsis;
}
.otx-input::placeholder { color: var(--otx-muted-color); opacity: 1; }
.otx-input[aria-invalid="true"], .otx-group.otx-invalid { border-color: var(--otx-error-color); }
.otx-list.otx-invalid { border-left: 2px solid var(--otx-error-color); padding-left: 6px; }
.otx-short { width: 10ch; }
.otx button { cursor: pointer; }
.otx button:hover { background: var(--otx-background-raised); }
.otx button:disabled, .otx button[aria-disabled="true"] { opacity: 0.5; cursor: default; }
.otx:focus { outline: none; }
.otx .otx-small { padding: 1px 7px; }
.otx .otx-run { background: var(--otx-brand); border-color: var(--otx-brand); color: #fff; padding: 4px 18px; font-weight: 600; }
.otx .otx-run:hover { background: var(--otx-brand); filter: brightness(0.92); }
.otx-chip { display: inline-block; border: 1px solid var(--otx-line); border-radius: 9px; padding: 0 7px; font-size: 11px; color: var(--otx-muted-color); font-weight: 400; }
.otx-ok { color: var(--otx-ok-color); border-color: var(--otx-ok-color); }
.otx-failed { color: var(--otx-error-color); border-color: var(--otx-error-color); }
.otx-error, .otx-failure { color: var(--otx-error-color); overflow-wrap: anywhere; }
.otx-failure { padding: 8px; border-left: 3px solid var(--otx-error-color); margin: 6px 0; }
.otx-notice { padding: 6px 10px; background: color-mix(in srgb, var(--jp-warn-color1, #e65100) 14%, var(--otx-background)); border-bottom: 1px solid var(--otx-line); }

.otx-head { display: flex; gap: 6px; padding: 6px; align-items: center; border-bottom: 1px solid var(--otx-line); }
.otx-head .otx-input { width: auto; max-width: 16ch; }
.otx-head .otx-search { flex: 1 1 14ch; max-width: none; }
.otx-total { white-space: nowrap; min-width: 11ch; text-align: right; }
.otx-keys { display: flex; flex-wrap: wrap; gap: 4px 18px; padding: 6px 10px; border-bottom: 1px solid var(--otx-line); background: var(--otx-background-raised); }
.otx kbd { border: 1px solid var(--otx-line); border-radius: 3px; padding: 0 4px; background: var(--otx-background); }

.otx-body { display: grid; grid-template-columns: 130px minmax(220px, 1fr) 2fr; height: 560px; }
.otx-packs { overflow: auto; border-right: 1px solid var(--otx-line); padding: 4px; }
.otx .otx-pack { display: flex; justify-content: space-between; gap: 6px; width: 100%; border: 0; text-align: left; overflow-wrap: anywhere; }
.otx-pack > .otx-muted { flex: none; white-space: nowrap; }
.otx .otx-pack.otx-current, .otx-tool.otx-current { background: var(--otx-mark); }
.otx-pack-select { display: none; }
.otx-left { display: flex; flex-direction: column; min-height: 0; min-width: 0; border-right: 1px solid var(--otx-line); }
.otx-place:not([hidden]) { display: contents; }
.otx-left > .otx-virtual-list, .otx-side, .otx-history { flex: 1; min-height: 0; }
.otx-side, .otx-history { overflow: auto; padding: 4px; }
.otx-history:focus { outline: none; }
.otx-only-search > select, .otx-only-search > .otx-total { visibility: hidden; }
.otx .otx-icon-button { display: inline-flex; flex: none; padding: 5px; border-color: transparent; background: none; color: var(--otx-muted-color); }
.otx .otx-icon-button:hover, .otx .otx-icon-button:focus-visible { color: var(--otx-text); background: var(--otx-background-raised); }
.otx-drawing { fill: none; stroke: currentcolor; stroke-width: 1.4; stroke-linecap: round; stroke-linejoin: round; }
.otx-outcome { flex: none; width: 1.3em; text-align: center; font-weight: 700; }
.otx-outcome-ok { color: var(--otx-ok-color); }
.otx-outcome-failed { color: var(--otx-error-color); }
.otx-calls-page { display: grid; grid-template-columns: minmax(0, 1fr); justify-items: stretch; }
.otx-calls-page > p { padding: 8px 6px; }
.otx-calls-page > p:empty { display: none; }
.otx .otx-more { justify-self: start; margin: 6px; }
.otx-history-run { border-bottom: 1px solid var(--otx-line); }
.otx-history-run > .otx-calls-page { border-left: 2px solid var(--otx-line); margin-left: 10px; }
.otx .otx-run-line { display: flex; align-items: center; width: 100%; padding: 4px; text-align: left; gap: 4px; }
.otx-history-head { display: flex; flex-wrap: wrap; justify-content: space-between; align-items: baseline; gap: 0 8px; }
.otx-history-head > .otx-muted { font-size: 11px; flex: none; font-variant-numeric: tabular-nums; }
.otx-history .otx-outcome-failed + .otx-tool-text > .otx-tool-summary { display: -webkit-box; -webkit-line-clamp: 2; -webkit-box-orient: vertical; white-space: normal; overflow-wrap: anywhere; }
.otx-history .otx-bar { padding: 0 4px 4px; }
.otx-history-bar { justify-content: flex-start; flex-wrap: nowrap; }
.otx-history-bar > select.otx-input { flex: 0 1 auto; }
.otx-right { overflow: auto; min-width: 0; padding: 8px 12px; scrollbar-gutter: stable; }
.otx .otx-back { display: none; margin-bottom: 6px; }
.otx-intro { padding: 24px 8px; display: grid; gap: 8px; }
.otx-behind { display: none; }
.otx-begin { display: grid; gap: 8px; margin-bottom: 8px; }
.otx-no-matches { padding: 10px; display: grid; gap: 8px; justify-items: start; overflow-wrap: anywhere; }

.otx-calls { border-top: 1px solid var(--otx-line); padding: 3px 6px; max-height: 40%; overflow: auto; flex: none; }
.otx-call-line { display: flex; gap: 6px; align-items: center; padding: 2px 0; min-width: 0; }
.otx .otx-call-open { border: 0; padding: 1px 2px; font-family: var(--otx-mono); font-size: 12px; overflow: hidden; text-overflow: ellipsis; white-space: nowrap; flex: 0 1 auto; }
.otx-call-progress { flex: 1; min-width: 0; overflow: hidden; text-overflow: ellipsis; white-space: nowrap; font-size: 12px; font-variant-numeric: tabular-nums; }

.otx-tabs { display: flex; gap: 2px; border-bottom: 1px solid var(--otx-line); margin: 4px 0; }
.otx .otx-tab { border: 0; border-bottom: 2px solid transparent; border-radius: 0; padding: 3px 10px; color: var(--otx-muted-color); background: none; }
.otx .otx-tab[aria-selected="true"] { border-bottom-color: var(--otx-brand); color: var(--otx-text); }

.otx-virtual-list { overflow: auto; position: relative; }
.otx-spacer { position: relative; min-width: max-content; }
.otx-left .otx-spacer { min-width: 0; }
.otx-virtual-list-body { position: absolute; top: 0; left: 0; min-width: 100%; will-change: transform; }
.otx-left .otx-virtual-list-body { width: 100%; }
.otx-tool, .otx-history-row { display: flex; align-items: center; gap: 4px; padding: 2px 4px 2px 10px; cursor: pointer; overflow: hidden; }
.otx-history-row { cursor: default; border-bottom: 1px solid var(--otx-line); padding: 4px; flex-wrap: wrap; content-visibility: auto; contain-intrinsic-height: auto 44px; }
.otx-history-row > .otx-tool-text { flex-basis: 8em; }
.otx-confirm { display: flex; flex-wrap: wrap; align-items: center; gap: 4px; flex-basis: 100%; padding: 4px; background: var(--otx-background-raised); white-space: normal; }
.otx-confirm[hidden] { display: none; }
.otx-tool:hover { background: var(--otx-background-raised); }
.otx-tool-text { flex: 1; min-width: 0; }
.otx-tool-name { font-family: var(--otx-mono); font-size: 12px; white-space: nowrap; overflow: hidden; text-overflow: ellipsis; }
.otx-history .otx-tool-name, .otx-history-row .otx-tool-name, .onetool-Tool .otx-tool-name { white-space: normal; overflow-wrap: anywhere; }
.otx-tool-summary { color: var(--otx-muted-color); font-size: 12px; white-space: nowrap; overflow: hidden; text-overflow: ellipsis; }
.otx-tool-summary > .otx-chip { font-size: 10px; line-height: 14px; padding: 0 5px; margin-right: 4px; }
.otx .otx-icon { width: 14px; height: 14px; object-fit: contain; vertical-align: -2px; margin: 0; flex: none; align-self: center; }
.otx-tool-name .otx-icon { margin-right: 5px; }
body[data-jp-theme-light="false"] .otx .otx-icon { background: #fff; border-radius: 2px; }
.otx-title .otx-icon { width: 20px; height: 20px; }
.otx .otx-star { cursor: pointer; flex: none; border: 0; background: none; color: var(--otx-muted-color); padding: 2px 5px; font-size: 14px; }
.otx .otx-star.otx-on { color: var(--jp-warn-color1, #b26a00); }

.otx-title { display: flex; align-items: center; gap: 6px; flex-wrap: wrap; }
.otx-title h3 { font-family: var(--otx-mono); font-size: 15px; overflow-wrap: anywhere; color: var(--otx-text); }
.otx-tool-docs { display: grid; gap: 5px; margin: 4px 0 8px; }
.otx-tool-docs p { white-space: pre-line; overflow-wrap: anywhere; max-height: 16em; overflow: auto; }
.otx-signature { color: var(--otx-muted-color); overflow-wrap: anywhere; }
.otx-form { display: grid; gap: 9px; padding: 4px 0; }
.otx-divider { color: var(--otx-muted-color); border-bottom: 1px solid var(--otx-line); font-size: 12px; }
.otx-label { display: flex; gap: 5px; align-items: baseline; }
.otx-label-row { display: flex; justify-content: space-between; align-items: center; gap: 6px; }
.otx .otx-variable-toggle { border-color: transparent; padding: 0 6px; color: var(--otx-muted-color); font-family: var(--otx-mono); background: none; }
.otx .otx-variable-toggle[aria-pressed="true"] { border-color: var(--otx-brand); color: var(--otx-brand); }
.otx-tip { font-size: 12px; }
.otx-name { font-family: var(--otx-mono); font-weight: 600; }
.otx-required { color: var(--otx-error-color); }
.otx-type { color: var(--otx-muted-color); font-size: 12px; }
.otx-help { color: var(--otx-muted-color); font-size: 12px; overflow-wrap: anywhere; white-space: pre-line; }
.otx-group { border: 1px solid var(--otx-line); border-radius: 4px; padding: 8px; margin: 0; display: grid; gap: 9px; min-width: 0; }
.otx-rows { display: grid; gap: 5px; margin-bottom: 5px; }
.otx-row { display: flex; gap: 5px; align-items: flex-start; }
.otx-grow { flex: 1; min-width: 0; }
.otx-branch { margin-top: 5px; }
.otx-json { font-family: var(--otx-mono); font-size: 12px; resize: vertical; }
.otx-snippet { margin: 6px 0; }
.otx-snippet pre { background: var(--otx-background-raised); padding: 6px; border-radius: 3px; }
.otx-actions { position: sticky; bottom: -8px; z-index: 2; background: var(--otx-background); padding: 4px 0; display: flex; gap: 8px; align-items: center; min-height: 34px; margin: 6px 0; flex-wrap: wrap; }
.otx-progress { display: flex; gap: 8px; align-items: center; color: var(--otx-muted-color); min-width: 0; overflow-wrap: anywhere; }
.otx-progress progress { width: 120px; accent-color: var(--otx-brand); }

.otx-result { border-top: 1px solid var(--otx-line); padding-top: 6px; }
.otx-result-head { display: flex; flex-wrap: wrap; gap: 4px 10px; align-items: center; }
.otx-summary { display: flex; flex-wrap: wrap; gap: 3px 9px; align-items: center; }
.otx-assign { display: flex; gap: 4px; align-items: center; flex-wrap: wrap; }
.otx-pane { display: flex; flex-direction: column; max-height: 320px; min-height: 96px; }
.otx-pane > .otx-virtual-list, .otx-scroll { flex: 0 1 auto; min-height: 44px; overflow: auto; border: 1px solid var(--otx-line); border-radius: 3px; }
.otx-standalone { padding: 8px; }
.otx-standalone .otx-pane { max-height: 440px; }
.otx-bar, .otx-find { display: flex; gap: 5px; align-items: center; flex-wrap: wrap; padding: 3px 0; }
.otx-bar { justify-content: space-between; }
.otx-bar > .otx-input { width: auto; flex: 0 1 30ch; }
.otx-snippet .otx-bar { justify-content: flex-start; gap: 10px; }
.otx-find .otx-input { width: 18ch; }
.otx-count { min-width: 9ch; max-width: 40ch; overflow: hidden; text-overflow: ellipsis; white-space: nowrap; }
.otx-line { display: flex; font-family: var(--otx-mono); font-size: 12px; line-height: 18px; white-space: pre; }
.otx-line.otx-current { background: var(--otx-mark); }
.otx-number { color: var(--otx-muted-color); min-width: 8ch; padding-right: 1ch; text-align: right; user-select: none; flex: none; }
.otx-virtual-list-body > * { height: var(--otx-row-height); }
.otx-loading-row { color: var(--otx-muted-color); padding-left: 8ch; }
.otx-table-empty { padding: 6px 2px; }
.otx-table-bar { justify-content: flex-start; }
.otx-table-bar > .otx-input { flex: 1 1 15ch; max-width: 30ch; }
.otx-tools { display: inline-flex; gap: 5px; align-items: center; margin-left: auto; flex-wrap: wrap; }
.otx .otx-small[aria-pressed="true"] { border-color: var(--otx-brand); color: var(--otx-brand); }
.otx-menu { position: relative; }
.otx-menu > button::after { content: " ▾"; content: " ▾" / ""; color: var(--otx-muted-color); }
.otx-menu-body { position: absolute; right: 0; top: calc(100% + 3px); z-index: 5; min-width: 100%; width: max-content; max-width: 320px; max-height: 240px; overflow: auto; display: grid; gap: 4px; padding: 8px; background: var(--otx-background); border: 1px solid var(--otx-line); border-radius: 4px; box-shadow: 0 3px 12px rgb(0 0 0 / 25%); }
.otx-menu-body button { text-align: left; }
.otx-choice { display: block; white-space: nowrap; overflow: hidden; text-overflow: ellipsis; }
.otx-result-head { position: relative; }
.otx-compare-list { display: grid; gap: 1px; min-width: 0; }
.otx .otx-compare-choice { display: flex; gap: 10px; align-items: baseline; border-color: transparent; padding: 4px 6px; min-width: 0; }
.otx-compare-call { flex: 1; min-width: 0; overflow: hidden; text-overflow: ellipsis; white-space: nowrap; }
.otx-compare-when { flex: none; font-size: 11px; font-variant-numeric: tabular-nums; }
.otx-compare-head { display: flex; flex-wrap: wrap; gap: 4px 12px; align-items: flex-start; padding: 4px 0 2px; }
.otx-compare-text { overflow-wrap: anywhere; }
.otx-compare-sides { font-size: 12px; overflow-wrap: anywhere; }
.otx-row-added { background: color-mix(in srgb, var(--otx-ok-color) 13%, transparent); }
.otx-row-removed { background: color-mix(in srgb, var(--otx-error-color) 11%, transparent); }
.otx-row-removed > .otx-cell:nth-child(n + 3) { text-decoration: line-through; text-decoration-color: var(--otx-muted-color); }
.otx-cell > del { color: var(--otx-muted-color); }
.otx-cell > ins { text-decoration: none; font-weight: 600; background: var(--otx-mark); border-radius: 2px; padding: 1px 3px; }
.otx-compare-list > .otx-divider { padding: 5px 6px 2px; }
.otx-hidden { position: absolute; clip-path: inset(50%); width: 1px; height: 1px; overflow: hidden; }
.otx-table-heads { position: sticky; top: 0; z-index: 1; background: var(--otx-background-raised); border-bottom: 1px solid var(--otx-line); min-width: max-content; }
.otx-table-head, .otx-table-row { display: flex; font-size: 12px; min-width: max-content; }
.otx-table-head { height: 24px; }
.otx-table-head > .otx-cell { position: relative; display: flex; align-items: center; padding-right: 9px; }
.otx-table-head > .otx-number { display: block; }
.otx .otx-funnel { flex: none; margin-left: 3px; display: inline-flex; padding: 1px; border: 0; background: none; color: var(--otx-muted-color); opacity: 0.55; }
.otx .otx-funnel svg { width: 12px; height: 12px; }
.otx .otx-funnel:hover, .otx .otx-funnel:focus-visible, .otx-table-head > .otx-cell:hover .otx-funnel { opacity: 1; }
.otx .otx-funnel[aria-pressed="true"] { color: var(--otx-brand); opacity: 1; }
.otx .otx-funnel[aria-pressed="true"] path { fill: currentcolor; }
.otx-chips { display: flex; flex-wrap: wrap; gap: 4px; padding: 0 0 4px; }
.otx .otx-filter-chip { border-color: var(--otx-brand); border-radius: 10px; max-width: 100%; overflow: hidden; text-overflow: ellipsis; white-space: nowrap; }
.otx .otx-link { border-color: transparent; color: var(--otx-brand); background: none; }
.otx-filter-box { position: fixed; margin: 0; inset: auto; width: 280px; padding: 10px; gap: 6px; flex-direction: column; color: var(--otx-text); background: var(--otx-background); border: 1px solid var(--otx-line); border-radius: 4px; box-shadow: 0 3px 12px rgb(0 0 0 / 25%); overflow: hidden; }
.otx-filter-box:popover-open { display: flex; }
.otx-filter-title, .otx-filter-foot { display: flex; gap: 8px; align-items: baseline; flex: none; }
.otx-filter-title strong { overflow: hidden; text-overflow: ellipsis; white-space: nowrap; }
.otx-filter-foot > :first-child { flex: 1; }
.otx-filter-box > .otx-input, .otx-filter-box > code { flex: none; }
.otx-filter-box > code { white-space: pre-wrap; font-size: 11px; }
.otx-filter-values { overflow: auto; min-height: 48px; flex: 0 1 auto; border-top: 1px solid var(--otx-line); border-bottom: 1px solid var(--otx-line); padding: 2px 0; }
.otx-filter-value { display: flex; gap: 6px; align-items: center; padding: 1px 2px; font-size: 12px; }
.otx-filter-value:hover { background: var(--otx-background-raised); }
.otx-filter-value > input { margin: 0; flex: none; }
.otx-filter-value > :nth-child(2) { flex: 1; min-width: 0; overflow: hidden; text-overflow: ellipsis; white-space: nowrap; font-family: var(--otx-mono); }
.otx-spread { display: flex; align-items: flex-end; height: 26px; gap: 1px; }
.otx .otx-spread-bar { display: flex; align-items: flex-end; align-self: stretch; width: 8px; padding: 0; border: 0; border-radius: 0; background: none; }
.otx-spread-bar > span { display: block; width: 100%; background: var(--otx-brand); }
.otx .otx-spread-bar:hover, .otx .otx-spread-bar:focus-visible { background: var(--otx-mark); }
.otx .otx-top { border: 0; background: none; padding: 0 2px; }
.otx .otx-top:hover { text-decoration: underline; }
.otx-table-row { border-bottom: 1px solid var(--otx-line); cursor: cell; user-select: none; }
.otx-table-row:hover { background: color-mix(in srgb, var(--otx-brand) 6%, transparent); }
.otx-cell.otx-selected { background: var(--otx-mark); }
.otx-cell { flex: none; padding: 2px 6px; overflow: hidden; text-overflow: ellipsis; white-space: nowrap; font-family: var(--otx-mono); }
.otx-kind-integer, .otx-kind-number { text-align: right; }
.otx-cell.otx-current { outline: 2px solid var(--otx-brand); outline-offset: -2px; }
.otx-edge { position: absolute; right: 0; top: 3px; bottom: 3px; width: 7px; cursor: col-resize; border-right: 2px solid var(--otx-line); }
.otx-edge:hover, .otx-edge:focus-visible { border-right-color: var(--otx-brand); }
.otx .otx-sort { border: 0; background: none; padding: 0; font-weight: 600; font-family: var(--otx-mono); font-size: 12px; width: 100%; text-align: inherit; overflow: hidden; text-overflow: ellipsis; }
.otx-columns { border-collapse: collapse; font-size: 12px; width: 100%; }
.otx-columns th, .otx-columns td { text-align: left; padding: 3px 8px; border-bottom: 1px solid var(--otx-line); white-space: nowrap; vertical-align: middle; background: none; max-width: 280px; overflow: hidden; text-overflow: ellipsis; }
.otx-columns thead th { position: sticky; top: 0; background: var(--otx-background-raised); }
.otx-columns tbody th, .otx-columns .otx-right-cell { font-family: var(--otx-mono); }
.otx-columns .otx-right-cell { text-align: right; }
.otx-columns th > .otx-tip { font-weight: 400; font-family: var(--jp-ui-font-family, system-ui, sans-serif); }
.otx .otx-top { margin-right: 12px; }
.otx-tree, .otx-tree ul { list-style: none; margin: 0; padding-left: 16px; font-family: var(--otx-mono); font-size: 12px; }
.otx .otx-expand { border: 0; background: none; padding: 0; text-align: left; }
.otx .otx-expand::before { content: "▸ "; content: "▸ " / ""; }
.otx [aria-expanded="true"] > .otx-expand::before, .otx .otx-expand[aria-expanded="true"]::before { content: "▾ "; content: "▾ " / ""; }
.otx-key { color: var(--otx-brand); }
.otx-value { overflow-wrap: anywhere; }
.otx .otx-path { border: 0; color: var(--otx-muted-color); font-size: 11px; opacity: 0; background: none; }
.otx li:hover > .otx-path, .otx .otx-leaf:hover .otx-path, .otx .otx-path:focus { opacity: 1; }
.otx-image { overflow: auto; }
.otx-image img { max-width: 100%; height: auto; align-self: flex-start; flex: none; }

.otx-totals { display: flex; flex-wrap: wrap; gap: 4px 20px; padding: 10px; color: var(--otx-muted-color); align-items: baseline; }
.otx-note { padding: 0 10px 10px; font-size: 12px; }
.otx-big { font-size: 18px; font-variant-numeric: tabular-nums; color: var(--otx-text); }
.otx-charts { display: grid; grid-template-columns: repeat(auto-fit, minmax(min(260px, 100%), 1fr)); gap: 12px 28px; padding: 0 10px 10px; }
.otx-figure figcaption { font-weight: 600; display: flex; gap: 10px; }
.otx-figure figcaption > .otx-muted { font-weight: 400; font-size: 12px; }
.otx-usage-table h3 { font-size: 13px; padding: 6px 8px 2px; }
.otx .otx-usage-failed :is(th, td):nth-child(-n+2) { text-align: left; white-space: normal; overflow-wrap: anywhere; }
.otx .otx-usage-failed td:nth-child(2) { overflow-wrap: break-word; }
.otx-figure svg { width: 100%; height: auto; overflow: visible; }
.otx-axis { fill: var(--otx-muted-color); font-size: 11px; }
.otx-axis-line { stroke: var(--otx-line); }
.otx-bar-ok { fill: var(--otx-brand); }
.otx-bar-failed { fill: var(--otx-error-color); }
.otx-band { fill: var(--otx-brand); opacity: 0.25; }
.otx-line-p50, .otx-line-p95 { stroke: var(--otx-brand); stroke-width: 2; }
.otx-line-p95 { stroke-width: 1; }
.otx-range { position: relative; height: 10px; }
.otx-range > span { position: absolute; inset: 0 auto 0 0; border-radius: 2px; background: var(--otx-brand); min-width: 1px; }
.otx-range > .otx-range-all { opacity: 0.25; }
.otx-legend { font-weight: 400; font-size: 12px; color: var(--otx-muted-color); }
.otx-legend::before { content: "■ "; color: var(--otx-brand); }
.otx-legend-failed::before { color: var(--otx-error-color); }
.otx-failing { display: grid; grid-template-columns: minmax(0, 12em) minmax(48px, 1fr) auto; gap: 0 6px; align-items: center; }
.otx-failing > div { display: contents; }
.otx-failing-name { overflow: hidden; text-overflow: ellipsis; white-space: nowrap; font-family: var(--otx-mono); font-size: 12px; }
.otx-usage-table { margin: 0 10px 10px; max-height: 260px; }
.otx-usage-table table { border-collapse: collapse; width: 100%; }
.otx-usage-table th, .otx-usage-table td { white-space: nowrap; text-align: right; padding: 2px 8px; border-bottom: 1px solid var(--otx-line); background: none; }
.otx-usage-table th { font-weight: 400; }
.otx-usage-table thead th { color: var(--otx-muted-color); }
.otx-usage-table th:first-child { text-align: left; }
.otx-usage-table:not(.otx-usage-failed) tbody th { font-family: var(--otx-mono); }
@container (max-width: 420px) {
  .otx-usage-failed thead, .otx-usage-table:not(.otx-usage-failed) tr > :is(:nth-child(4), :nth-child(6)) { display: none; }
  .otx-usage-failed tr { display: flex; flex-wrap: wrap; gap: 0 10px; padding: 4px 8px; border-bottom: 1px solid var(--otx-line); }
  .otx .otx-usage-failed tr > * { border: 0; padding: 0; }
  .otx-usage-failed tr > :first-child { flex-basis: 100%; }
  .otx-usage-failed td { color: var(--otx-muted-color); font-size: 12px; }
  .otx-usage-failed td:nth-child(3)::before { content: "\xd7 "; }
  .otx-usage-table:not(.otx-usage-failed) tbody th { white-space: normal; overflow-wrap: anywhere; width: 100%; }
  .otx-usage-table:not(.otx-usage-failed) tr > * { padding: 2px 5px; }
  .otx-usage-table:not(.otx-usage-failed) tbody th { font-size: 11px; }
  .otx-usage-table { margin: 0 4px 10px; }
  .otx-failing { grid-template-columns: minmax(0, 1fr) 48px auto; }
}

@container (max-width: 780px) {
  .otx-body { grid-template-columns: minmax(200px, 1fr) 2fr; }
  .otx-packs { display: none; }
  .otx-pack-select { display: block; }
}
@container (max-width: 560px) {
  .otx-body { display: block; }
  .otx-left { height: 100%; border-right: 0; }
  .otx-right { display: none; height: 100%; }
  .otx-page-open .otx-left { display: none; }
  .otx-page-open .otx-right { display: block; }
  .otx .otx-back { display: inline-block; }
  .otx-beginning > .otx-body { display: flex; flex-direction: column; }
  .otx-beginning .otx-left { order: 1; flex: 1 1 0; height: auto; }
  .otx-beginning .otx-right { display: block; flex: none; height: auto; max-height: 50%; border-bottom: 1px solid var(--otx-line); }
  .otx-beginning :is(.otx-back, .otx-how) { display: none; }
  .otx-beginning .otx-intro { display: grid; padding: 2px 0; }
  .otx-beginning .otx-right > .otx-place { display: none; }
  .otx-head { flex-wrap: wrap; }
  .otx-browser:not(.otx-narrow) .otx-search, .otx-head:not(.otx-only-search) .otx-search { flex-basis: 100%; }
  .otx-narrow > .otx-only-search > select, .otx-narrow > .otx-only-search > .otx-total { display: none; }
  .otx-narrow.otx-page-open > .otx-tabs { display: none; }
  .otx-browser:not(.otx-narrow) .otx-head select { flex: 1 1 26%; max-width: none; }
  .otx-browser:not(.otx-narrow) .otx-total { flex: 1; text-align: left; padding-left: 6px; }
}

.otx-trust { display: flex; flex-direction: column; gap: 4px; padding: 8px 10px; border-left: 3px solid var(--jp-warn-color1, #b26a00); background: color-mix(in srgb, var(--jp-warn-color1, #e65100) 8%, var(--otx-background)); }
.otx-question > .otx-trust { padding: 0; border: 0; background: none; }
.otx .otx-file { all: unset; cursor: pointer; text-decoration: underline; }
.otx .otx-file:focus-visible { outline: 2px solid var(--otx-brand); }
.otx-trust-box { border-bottom: 1px solid var(--otx-line); max-height: 50vh; overflow: auto; }
.otx-trust p, .otx-trust ul { margin: 0; }
.otx-trust ul { padding-left: 1.4em; }
.otx-trust code { font-family: var(--otx-mono); overflow-wrap: anywhere; white-space: pre-wrap; }
.otx-trust-changes { margin: 2px 0; font-family: var(--otx-mono); white-space: pre-wrap; overflow-wrap: anywhere; }
.otx-trust-buttons { display: flex; flex-wrap: wrap; gap: 8px; align-items: center; margin-top: 4px; }
.otx-trust-buttons button { white-space: nowrap; }
.otx-trust-buttons[hidden] { display: none; }

.otx-question { display: flex; flex-direction: column; gap: 8px; padding: 10px 12px; max-width: 860px; border-left: 3px solid var(--otx-brand); }
.otx-question-title { font-size: 14px; overflow-wrap: anywhere; }
.otx-question-text { white-space: pre-line; overflow-wrap: anywhere; max-height: 16em; overflow: auto; }
.otx pre.otx-question-program { margin: 0; padding: 6px 10px; max-height: 22em; overflow: auto; border: 1px solid var(--otx-line); border-radius: 4px; white-space: pre-wrap; overflow-wrap: anywhere; }
.otx-question-program > div { text-indent: -4ch; }
.otx-question-writes { max-height: 24em; overflow: auto; }
.otx .otx-question-writes table { border-collapse: collapse; width: 100%; }
.otx .otx-question-writes td { padding: 3px 8px 3px 0; vertical-align: top; }
.otx .otx-question-writes td:last-child { width: 100%; }
.otx-question-write { display: flex; flex-wrap: wrap; gap: 2px 16px; }
.otx .otx-question-write > dl { display: flex; flex-wrap: wrap; flex: 1 1 16em; gap: 2px 16px; margin: 0; min-width: 0; }
.otx-question-write dl > div { display: flex; gap: 8px; max-width: 100%; }
.otx .otx-question-write dt { float: none; width: auto; flex: none; font-weight: 400; color: var(--otx-muted-color); font-family: var(--otx-mono); font-size: 12px; }
.otx .otx-question-write dd { float: none; margin: 0; width: auto; min-width: 0; max-height: 16em; overflow: auto; overflow-wrap: anywhere; }
.otx-question-calls { list-style: none; margin: 0; padding: 0; display: grid; gap: 8px; }
.otx-question-calls > li { border: 1px solid var(--otx-line); border-radius: 4px; padding: 6px 10px 8px; display: grid; gap: 3px; min-width: 0; }
.otx-question-head { display: flex; flex-wrap: wrap; align-items: center; gap: 4px 8px; }
.otx-question-head .otx-name { overflow-wrap: anywhere; }
.otx-question-decide { display: flex; gap: 6px; align-items: center; margin-left: auto; }
.otx dl.otx-question-args { display: grid; grid-template-columns: fit-content(16em) minmax(0, 1fr); gap: 2px 12px; margin: 2px 0 0; }
.otx .otx-question-args dt { float: none; width: auto; font-weight: 400; color: var(--otx-muted-color); font-family: var(--otx-mono); font-size: 12px; overflow-wrap: anywhere; }
.otx .otx-question-args dd { float: none; display: block; margin: 0; width: auto; max-height: 16em; overflow: auto; }
.otx-question-details { list-style: none; margin: 0; padding: 0; display: grid; gap: 4px; min-width: 0; }
.otx-question-details > li { padding: 4px 8px; background: var(--otx-background-raised); border-radius: 3px; min-width: 0; }
.otx-question code { white-space: pre-wrap; overflow-wrap: anywhere; }
.otx-question-address { padding: 6px 8px; background: var(--otx-background-raised); border-radius: 3px; }
.otx-question-buttons { display: flex; flex-wrap: wrap; gap: 8px; align-items: center; }
.otx .otx-question-buttons button, .otx a.otx-run { padding: 4px 14px; }
.otx a.otx-run { border: 1px solid var(--otx-brand); border-radius: 3px; text-decoration: none; }
.otx-choices { border: 0; margin: 0; padding: 0; min-width: 0; }
.otx-choices legend { padding: 0; }
.otx-question .otx-label .otx-name { font-family: inherit; }
.onetool-Panel-questions { overflow: auto; flex: 0 1 auto; min-height: 0; }
/* A question has the panel for itself: it is read in one place, with one scroll bar. Only the conversation that it belongs to stays. */
.onetool-Panel-inner:has(.onetool-Panel-questions .otx-question) > :not(.onetool-Panel-questions, .onetool-Panel-ask) { display: none; }
.onetool-Panel-inner:has(> .onetool-Panel-ask:not([hidden])) > .onetool-Panel-questions { max-height: 60%; flex: none; }
.onetool-Panel-questions .otx-question { border-width: 0 0 1px 3px; border-radius: 0; }
.otx-choice { display: flex; gap: 6px; align-items: center; }
.otx-question .otx-input { max-width: 420px; }
.otx-question .otx-form { max-width: none; }

.otx-server { display: grid; grid-template-columns: minmax(0, 1fr); gap: 8px; }
.otx-server { border: 1px solid var(--otx-line); border-radius: 4px; padding: 8px; gap: 6px; }
.otx-server-facts { display: flex; flex-wrap: wrap; gap: 2px 8px; align-items: baseline; }
.otx-server-address { flex-basis: 100%; overflow: hidden; text-overflow: ellipsis; white-space: nowrap; }
.otx-server-facts > p { flex-basis: 100%; overflow-wrap: anywhere; }
.otx-server-facts > p:empty { display: none; }
.otx-server-buttons { display: flex; flex-wrap: wrap; gap: 4px; }
.otx-server-logs { max-height: 200px; overflow: auto; background: var(--otx-background-raised); padding: 6px; border-radius: 3px; }
.otx-whole { overflow-wrap: anywhere; }
.otx-state-ok { color: var(--otx-ok-color); }
.otx-state-failed { color: var(--otx-error-color); }
.otx-state-warning { color: var(--jp-warn-color1, #b26a00); }
.otx-state-idle { color: var(--otx-muted-color); }

.otx-health { display: grid; grid-template-columns: minmax(0, 1fr); gap: 8px; }
.otx-health > p:empty { display: none; }
.otx-states { display: grid; gap: 3px; list-style: none; margin: 0; padding: 0; }
.otx-states > li { display: flex; gap: 6px; }
.otx-problem { border-bottom: 1px solid var(--otx-line); padding: 3px 0; }
.otx-problem-head { display: flex; align-items: center; gap: 6px; }
.otx-problem-head > .otx-small { flex: none; }
.otx .otx-problem-line { flex: 1; padding: 2px 0; overflow: hidden; overflow-wrap: anywhere; display: -webkit-box; -webkit-box-orient: vertical; -webkit-line-clamp: 3; }
.otx-problem-details { display: grid; gap: 6px; padding: 4px 0 6px 14px; overflow-wrap: anywhere; }
.otx-excerpt { overflow: auto; background: var(--otx-background-raised); border-radius: 3px; padding: 4px 0; }
.otx-excerpt .otx-number { min-width: 5ch; }

.otx-editor { display: flex; flex-direction: column; gap: 6px; padding: 0 12px 12px; }
.otx-editor h3 { font-size: 14px; }
.otx-editor h4 { margin: 4px 0 2px; font-size: 12px; font-weight: 600; color: var(--otx-muted-color); }
.otx-editor select.otx-input { width: auto; max-width: 100%; }
.otx-editor summary { cursor: pointer; color: var(--otx-muted-color); padding: 2px 0; }
.otx-editor-top { position: sticky; top: 0; z-index: 4; background: var(--otx-background); padding: 10px 0 6px; display: grid; gap: 6px; border-bottom: 1px solid var(--otx-line); }
.otx-editor-line { display: flex; gap: 6px; align-items: center; min-width: 0; min-height: 20px; }
.otx-editor-line > select[aria-label="Environment"] { flex: 0 1 auto; max-width: 16ch; }
.otx-editor p.otx-editor-target { margin: 0; font-size: 12px; overflow-wrap: anywhere; }
.otx-editor-line > input.otx-input { flex: 1 1 0; font-family: var(--otx-mono); font-size: 12px; }
.otx-editor-top .otx-editor-line .otx-run { min-width: 9ch; padding: 4px 10px; }
.otx-editor-status { overflow-wrap: anywhere; font-weight: 600; }
.otx-editor-status.otx-ok { color: var(--otx-ok-color); }
.otx-editor-status.otx-failed { color: var(--otx-error-color); }
.otx-editor .otx-confirm { background: var(--otx-background-raised); border-left: 3px solid var(--otx-brand); padding: 8px; gap: 8px; }
.otx-editor-columns { display: grid; grid-template-columns: minmax(0, 1fr) minmax(0, 1fr); gap: 20px; }
.otx-editor-left, .otx-editor-right { min-width: 0; display: grid; gap: 14px; align-content: start; }
.otx-editor-section { display: grid; gap: 5px; min-width: 0; }
.otx-editor-section > * { min-width: 0; }
.otx-editor-section > h3 { border-bottom: 1px solid var(--otx-line); padding-bottom: 2px; }
.otx-editor-field { display: grid; gap: 2px; }
.otx-editor-auth { display: grid; gap: 5px; margin-top: 5px; }
.otx-editor-more { display: grid; grid-template-columns: 3fr 2fr 1fr; gap: 8px; }
.otx-editor-curl[open] { display: grid; gap: 5px; }
.otx-pairs { display: grid; gap: 4px; }
.otx-pair { display: flex; gap: 4px; margin-top: 4px; }
.otx-pairs .otx-pair { margin: 0; }
.otx-pair .otx-input { font-family: var(--otx-mono); font-size: 12px; }
.otx-pair .otx-input:nth-child(2) { flex: 1 1 60%; }
.otx-pair .otx-input:first-child { flex: 1 1 40%; }
.otx-arguments th, .otx-arguments td { padding: 3px 4px; max-width: none; overflow: visible; }
.otx-arguments .otx-input { min-width: 7ch; }
.otx-editor .otx-viewer { margin-top: 8px; }
.otx-editor-right .otx-scroll { border: 0; }
.otx-editor-right .otx-pane { max-height: 60vh; }
.otx-editor .otx-whole { white-space: normal; overflow-wrap: anywhere; max-width: none; }
@container (max-width: 760px) {
  .otx-editor-columns { grid-template-columns: minmax(0, 1fr); }
  .otx-editor-more { grid-template-columns: minmax(0, 1fr); }
}
@container (max-width: 420px) {
  .otx-editor-top .otx-editor-line { flex-wrap: wrap; }
  .otx-editor-top .otx-editor-line > input[aria-label="URL"] { flex: 1 0 60%; }
}

.otx .otx-server-name { border: 0; background: none; padding: 0; font-weight: 700; color: var(--otx-brand); }
.otx .otx-server-name:hover { text-decoration: underline; }
.otx-server-page { padding: 12px; display: flex; flex-direction: column; max-width: none; height: 100%; border: 0; overflow: auto; }
.otx-server-head { display: grid; gap: 4px; }
.otx-server-head h3 { font-size: 16px; }
.otx-server-line { display: flex; gap: 8px; align-items: baseline; flex-wrap: wrap; }
.otx-server-part { min-height: 0; overflow: auto; padding-top: 4px; }
.otx-offers, .otx-messages { list-style: none; margin: 0; padding: 0; }
.otx-offers > li, .otx-messages > li { padding: 6px 2px; border-bottom: 1px solid var(--otx-line); }
.otx-offers p { white-space: pre-line; overflow-wrap: anywhere; }
.otx-offers summary, .otx-server-head summary { color: var(--otx-muted-color); cursor: pointer; }
.otx-messages > li { padding: 2px; }
.otx .otx-messages .otx-expand { display: inline-flex; gap: 8px; align-items: baseline; font-size: 12px; }
.otx-messages .otx-muted { font-family: var(--otx-mono); font-variant-numeric: tabular-nums; }
.otx-way { color: var(--otx-ok-color); font-weight: 700; }
.otx-way-out { color: var(--otx-brand); }
.otx-message-start { display: block; padding-left: 16px; color: var(--otx-muted-color); overflow: hidden; text-overflow: ellipsis; white-space: nowrap; }
.otx-message-body { padding: 4px 0 6px 16px; display: grid; gap: 4px; justify-items: start; }
.otx-message-body pre, .otx-server-log, .otx-offers pre { background: var(--otx-background-raised); border-radius: 3px; padding: 6px; width: 100%; max-height: 480px; overflow: auto; }

.otx.onetool-Result { display: flex; flex-direction: column; height: 100%; max-width: none; border: 0; }
.onetool-Result > .otx-viewer { flex: 1; min-height: 0; display: flex; flex-direction: column; }
.onetool-Result .otx-result-body { flex: 1; min-height: 0; display: flex; flex-direction: column; }
.onetool-Result .otx-pane { flex: 0 1 auto; max-height: 100%; }

.otx-secret-field { display: flex; flex-wrap: wrap; gap: 4px 6px; align-items: end; margin: 4px 0; }
.otx-secret-field label { display: grid; gap: 2px; flex: 1 1 16ch; min-width: 0; overflow-wrap: anywhere; }
.otx-secret-field > .otx-error { flex-basis: 100%; }
.otx.otx-tool-tab { height: 100%; max-width: none; border: 0; overflow: auto; padding: 12px 16px; }
.otx-tool-answer > p { display: none; }
@container (min-width: 700px) {
  .otx-tool-tab > .otx-tool-place { height: 100%; }
  .otx-tool-tab .otx-tool-page { display: grid; grid-template: auto minmax(240px, 1fr) / minmax(280px, 2fr) 3fr; gap: 4px 24px; height: 100%; }
  .otx-tool-tab .otx-tool-page > :not(.otx-tool-ask, .otx-tool-answer) { grid-column: 1 / -1; }
  .otx-tool-tab :is(.otx-tool-ask, .otx-tool-answer) { min-width: 0; overflow: auto; padding: 0 2px 8px; }
  .otx-tool-tab .otx-tool-answer > p { display: block; padding: 8px 0; }
  .otx-tool-tab .otx-result { border-top: 0; padding-top: 4px; height: 100%; }
  .otx-tool-tab .otx-viewer { display: flex; flex-direction: column; height: 100%; }
  .otx-tool-tab .otx-result-body { flex: 1; min-height: 0; display: flex; flex-direction: column; }
  .otx-tool-tab .otx-pane { max-height: 100%; }
}
.otx-tool-calls .otx-history { padding: 4px 0; overflow: visible; }
.otx-more-menu > button::after { content: none; }
.otx .otx-more-menu { position: static; }
.otx-more-menu > .otx-menu-body { width: min(480px, 100%); min-width: 0; max-width: none; max-height: 340px; gap: 10px; padding: 10px; }
.otx-assign > strong { flex-basis: 100%; }

.otx-ask { display: flex; flex-direction: column; height: 100%; min-height: 0; }
.otx-ask-bar { display: grid; gap: 4px; padding: 6px 8px; border-bottom: 1px solid var(--otx-line); }
.otx-ask-bar > div { display: flex; gap: 4px; }
.otx-ask-bar select { flex: 1; }
.otx-ask-bar button, .otx-models-name > button { flex: none; }
.otx-ask-talk { flex: 1; min-height: 0; overflow: auto; padding: 4px 10px; }
.otx-ask-talk > p { padding: 6px 0; }
.otx-exchange { display: grid; grid-template-columns: minmax(0, 1fr); gap: 4px; padding: 8px 0; }
.otx-exchange + .otx-exchange { border-top: 1px solid var(--otx-line); }
.otx .otx-prompt { justify-self: end; max-width: 92%; padding: 4px 9px; border-radius: 9px; background: var(--otx-background-raised); white-space: pre-wrap; overflow-wrap: anywhere; }
.otx-exchange .otx-muted, .otx-ask-end, .otx-ask-total { font-size: 12px; overflow-wrap: anywhere; }
.otx-ask-text { overflow-wrap: anywhere; }
.otx-ask-text.otx-plain { white-space: pre-wrap; }
.otx-ask-text .jp-RenderedHTMLCommon { padding: 0; font-size: 13px; font-family: inherit; color: inherit; }
.otx-ask-text .jp-RenderedHTMLCommon > :last-child { margin-bottom: 0; }
.otx-ask-text .jp-RenderedHTMLCommon table { margin-left: 0; }
.otx-ask-call { border-left: 2px solid var(--otx-line); padding-left: 6px; font-size: 12px; }
.otx-ask-call > summary { cursor: pointer; overflow-wrap: anywhere; }
.otx-ask-call .otx-outcome { display: inline-block; }
.otx-ask-call > pre { max-height: 16em; overflow: auto; padding: 2px 0 4px; }
.otx-ask-box { display: flex; flex-wrap: wrap; justify-content: flex-end; gap: 6px; padding: 6px 8px 8px; border-top: 1px solid var(--otx-line); }
.otx-ask-box > p { flex: 1 1 100%; overflow-wrap: anywhere; }
.otx-ask-box > p:empty { display: none; }
.otx-ask-box > textarea { resize: vertical; }
.otx-models, .otx-models-fields { display: grid; grid-template-columns: minmax(0, 1fr); gap: 8px; }
.otx-models { padding: 6px 0 10px; border-bottom: 1px solid var(--otx-line); }
.otx-models label:not(.otx-choice) { display: grid; gap: 2px; font-size: 12px; color: var(--otx-muted-color); }
.otx-models label > .otx-input, .otx-models-name > .otx-input { color: var(--otx-text); font-size: 13px; }
.otx-models-found { display: grid; gap: 4px; }
.otx-models-found > button { text-align: left; overflow-wrap: anywhere; }
.otx-models-found > [aria-pressed="true"] { border-color: var(--otx-brand); background: var(--otx-mark); }
.otx-models-name { display: flex; gap: 4px; }
.otx-models-do { justify-content: flex-start; }
.otx-models > p { overflow-wrap: anywhere; }
.otx-models > p:empty { display: none; }
`,""]),e.d(t,{},{A:i})},27(o){o.exports=function(o){var t=[];return t.toString=function(){return this.map(function(t){var e="",r=void 0!==t[5];return t[4]&&(e+="@supports (".concat(t[4],") {")),t[2]&&(e+="@media ".concat(t[2]," {")),r&&(e+="@layer".concat(t[5].length>0?" ".concat(t[5]):""," {")),e+=o(t),r&&(e+="}"),t[2]&&(e+="}"),t[4]&&(e+="}"),e}).join("")},t.i=function(o,e,r,a,n){"string"==typeof o&&(o=[[null,o,void 0]]);var i={};if(r)for(var x=0;x<this.length;x++){var l=this[x][0];null!=l&&(i[l]=!0)}for(var p=0;p<o.length;p++){var d=[].concat(o[p]);r&&i[d[0]]||(void 0!==n&&(void 0===d[5]||(d[1]="@layer".concat(d[5].length>0?" ".concat(d[5]):""," {").concat(d[1],"}")),d[5]=n),e&&(d[2]&&(d[1]="@media ".concat(d[2]," {").concat(d[1],"}")),d[2]=e),a&&(d[4]?(d[1]="@supports (".concat(d[4],") {").concat(d[1],"}"),d[4]=a):d[4]="".concat(a)),t.push(d))}},t}},26(o){o.exports=function(o){return o[1]}},18(o,t,e){e.r(t);var r=e(19),a=e.n(r),n=e(20),i=e.n(n),x=e(21),l=e.n(x),p=e(22),d=e.n(p),s=e(23),c=e.n(s),g=e(24),f=e.n(g),u=e(25),m={};m.styleTagTransform=f(),m.setAttributes=d(),m.insert=l().bind(null,"head"),m.domAPI=i(),m.insertStyleElement=c(),a()(u.A,m);let h=u.A&&u.A.locals?u.A.locals:void 0;e.d(t,{},{default:h})},19(o){var t=[];function e(o){for(var e=-1,r=0;r<t.length;r++)if(t[r].identifier===o){e=r;break}return e}function r(o,r){for(var a={},n=[],i=0;i<o.length;i++){var x=o[i],l=r.base?x[0]+r.base:x[0],p=a[l]||0,d="".concat(l," ").concat(p);a[l]=p+1;var s=e(d),c={css:x[1],media:x[2],sourceMap:x[3],supports:x[4],layer:x[5]};if(-1!==s)t[s].references++,t[s].updater(c);else{var g=function(o,t){var e=t.domAPI(t);return e.update(o),function(t){t?(t.css!==o.css||t.media!==o.media||t.sourceMap!==o.sourceMap||t.supports!==o.supports||t.layer!==o.layer)&&e.update(o=t):e.remove()}}(c,r);r.byIndex=i,t.splice(i,0,{identifier:d,updater:g,references:1})}n.push(d)}return n}o.exports=function(o,a){var n=r(o=o||[],a=a||{});return function(o){o=o||[];for(var i=0;i<n.length;i++){var x=e(n[i]);t[x].references--}for(var l=r(o,a),p=0;p<n.length;p++){var d=e(n[p]);0===t[d].references&&(t[d].updater(),t.splice(d,1))}n=l}}},21(o){var t={};o.exports=function(o,e){var r=function(o){if(void 0===t[o]){var e=document.querySelector(o);if(window.HTMLIFrameElement&&e instanceof window.HTMLIFrameElement)try{e=e.contentDocument.head}catch(o){e=null}t[o]=e}return t[o]}(o);if(!r)throw Error("Couldn't find a style target. This probably means that the value for the 'insert' parameter is invalid.");r.appendChild(e)}},23(o){o.exports=function(o){var t=document.createElement("style");return o.setAttributes(t,o.attributes),o.insert(t,o.options),t}},22(o,t,e){o.exports=function(o){var t=e.nc;t&&o.setAttribute("nonce",t)}},20(o){o.exports=function(o){if("u"<typeof document)return{update:function(){},remove:function(){}};var t=o.insertStyleElement(o);return{update:function(e){var r,a,n;r="",e.supports&&(r+="@supports (".concat(e.supports,") {")),e.media&&(r+="@media ".concat(e.media," {")),(a=void 0!==e.layer)&&(r+="@layer".concat(e.layer.length>0?" ".concat(e.layer):""," {")),r+=e.css,a&&(r+="}"),e.media&&(r+="}"),e.supports&&(r+="}"),(n=e.sourceMap)&&"u">typeof btoa&&(r+="\n/*# sourceMappingURL=data:application/json;base64,".concat(btoa(unescape(encodeURIComponent(JSON.stringify(n))))," */")),o.styleTagTransform(r,t,o.options)},remove:function(){var o;null===(o=t).parentNode||o.parentNode.removeChild(o)}}}},24(o){o.exports=function(o,t){if(t.styleSheet)t.styleSheet.cssText=o;else{for(;t.firstChild;)t.removeChild(t.firstChild);t.appendChild(document.createTextNode(o))}}}}]);