/** A moment in ms; a local one is a reading of clocks as if it were UTC. */
export type Moment = { ms: number; isLocal: boolean };

const MOMENT = /^\d{4}-\d\d-\d\d(?:T\d\d:\d\d(?::\d\d(?:\.\d{1,3})?)?(Z|[+-]\d\d:\d\d)?)?$/;
const DATE_LENGTH = 10;

/**
 * Reads `2026-03-29`, `2026-03-29T02:30`, or a time with `Z` or an offset; undefined for anything else, and
 * for days that do not exist.
 */
export const parseMoment = (text: string): Moment | undefined => {
  const found = MOMENT.exec(text);
  if (!found) return undefined;
  const day = text.slice(0, DATE_LENGTH);
  const dayMs = Date.parse(day);
  // JavaScript takes the 30th of February for the 2nd of March.
  if (Number.isNaN(dayMs) || new Date(dayMs).toISOString().slice(0, DATE_LENGTH) !== day) return undefined;
  const isLocal = found[1] === undefined;
  const ms = Date.parse(isLocal && text.length > DATE_LENGTH ? `${text}Z` : text);
  return Number.isNaN(ms) ? undefined : { ms, isLocal };
};

export const isMoment = (text: string): boolean => parseMoment(text) !== undefined;
