/**
 * Minimum number of firing times kept, and windows of each calendar unit: how late an event may arrive and
 * still fire.
 */
export const WINDOWS_KEPT = 8;

export type Refusal = {
  reason: "LIMIT_REACHED" | "COOLDOWN" | "BUDGET_EXHAUSTED";
  detail: string;
  /** When the rule may fire again, in ms. */
  nextEligibleMs?: number;
};

/** At most `max` firings in any span of `spanMs`. */
export type RollingLimit = { max: number; spanMs: number; reason: Refusal["reason"] };

/** `t`: firing times in ms, ascending; `f`: the latest firing time that was dropped from `t`. */
export type FiringTimes = { t?: number[]; f?: number };

export const LATE = "late: what happened in that window is no longer known";

/**
 * Checks whether the rule may fire at `at`, so that no half-open span of `spanMs` has more than `max`
 * firings. Events may be late, so spans that begin before `at` and spans that end after it both count.
 */
export const checkRolling = (
  { max, spanMs, reason }: RollingLimit,
  { t: times = [], f: dropped }: FiringTimes,
  at: number,
): Refusal | undefined => {
  if (dropped !== undefined && dropped > at - spanMs) return { reason, detail: LATE };
  const after = times.findIndex((time) => time > at);
  const position = after === -1 ? times.length : after;
  const all = times.toSpliced(position, 0, at);
  for (let start = Math.max(0, position - max); start <= position && start + max < all.length; start++) {
    if (all[start + max]! - all[start]! < spanMs) {
      return { reason, detail: `${max} in ${spanMs / 1_000} s`, nextEligibleMs: all[start]! + spanMs };
    }
  }
  return undefined;
};

/** Adds a firing; beyond `kept` times the earliest ones are dropped. */
export const keepTime = <T extends FiringTimes>(state: T, at: number, kept: number): void => {
  const times = [...(state.t ?? []), at].toSorted((a, b) => a - b);
  const dropped = times.splice(0, Math.max(0, times.length - kept)).at(-1);
  if (dropped !== undefined) state.f = Math.max(dropped, state.f ?? dropped);
  state.t = times;
};

/** Removes one firing at a time, if it is still kept. */
export const takeTime = <T extends FiringTimes>(state: T, at: number): void => {
  const place = state.t?.indexOf(at) ?? -1;
  if (place !== -1) state.t = state.t!.toSpliced(place, 1);
  if (state.t?.length === 0 && state.f === undefined) delete state.t;
};
