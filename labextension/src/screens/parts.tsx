// What several screens draw alike: a failed request, icons, the mark of an outcome.
import type { LatestRequest } from './requests.js';

/** Why a request failed, and a button that sends it again; nothing if it did not. */
export function Failure({ of: request }: { of: LatestRequest<any, any> }) {
  if (!request.failure.value) return null;
  return (
    <>
      {request.failure.value} <button class="otx-small" type="button" onClick={() => request.again()}>Try again</button>
    </>
  );
}

/** A line drawing of 16 by 16, in the colour of the text. */
export function Drawing({ path }: { path: string }) {
  return (
    <svg viewBox="0 0 16 16" width="14" height="14" aria-hidden="true" class="otx-drawing">
      <path d={path} />
    </svg>
  );
}

/** Whether a call went well, as a mark with a name. */
export function Outcome({ isOk }: { isOk: boolean }) {
  const outcome = isOk ? 'ok' : 'failed';
  return <span class={`otx-outcome otx-outcome-${outcome}`} role="img" aria-label={outcome}>{isOk ? '✓' : '✗'}</span>;
}
