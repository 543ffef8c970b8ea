import type { SharedKey } from "../shared-counters.ts";
import type { Turn } from "../turn.ts";
import type { Limit, RuleDocument } from "../language/document.ts";
import { checkRolling, type FiringTimes, keepTime, type Refusal, takeTime, WINDOWS_KEPT } from "./rolling.ts";
import { type CalendarUnit, firstZone, windowNumber, windowStart } from "../../kernel/zones.ts";

/** The project whose counters are used, and the zone in which its days begin. */
export type SharedScope = { projectId: string; timezone: string };

/** One counter across all players. `keyOf` names the row that an event at `atMs` touches. */
export type SharedLimit = {
  keyOf(project: SharedScope, atMs: number): SharedKey;
  check(turn: Turn): Refusal | undefined;
  record(turn: Turn): void;
  /** Removes a firing at the time of the turn's event. */
  refund(turn: Turn): void;
};

export type LimitWindow = Limit["window"];

/** Returns the name of a window in scopes and messages: `DAY`, or its seconds. */
export const windowName = (window: LimitWindow): string =>
  typeof window === "string" ? window : `${window.rollingSeconds}s`;

/** Returns the row number for a moment: that of its calendar window in the project's zone, else 0. */
export const rowNumber = (window: LimitWindow, { timezone }: SharedScope, atMs: number): number =>
  window === "LIFETIME" || typeof window !== "string" ? 0 : windowNumber(window, firstZone(timezone), atMs);

/** Returns when the window after the one that contains `atMs` begins; undefined where there is none. */
export const nextWindowMs = (
  window: LimitWindow,
  { timezone }: SharedScope,
  atMs: number,
): number | undefined => {
  if (window === "LIFETIME" || typeof window !== "string") return undefined;
  const unit: CalendarUnit = window;
  const zone = firstZone(timezone);
  return windowStart(unit, zone, windowNumber(unit, zone, atMs) + 1);
};

/** Compiles the limits across all players. @param prefix of the names of a rule's counters */
export const compileSharedLimits = (prefix: string, limits: RuleDocument["limits"]): SharedLimit[] =>
  strictest(limits?.global ?? []).map((limit) => {
    const scope = `${prefix}:g:${windowName(limit.window)}`;
    return typeof limit.window === "string" ? countingLimit(scope, limit) : rollingLimit(scope, limit);
  });

/** Returns the smallest of the limits on equal windows: they share a counter. */
const strictest = (limits: readonly Limit[]): Limit[] => {
  const byWindow = new Map<string, Limit>();
  for (const limit of limits) {
    const known = byWindow.get(windowName(limit.window));
    if (!known || limit.max < known.max) byWindow.set(windowName(limit.window), limit);
  }
  return [...byWindow.values()];
};

const countingLimit = (scope: string, { max, window }: Limit): SharedLimit => {
  const keyOf: SharedLimit["keyOf"] = (project, atMs) => ({
    projectId: project.projectId,
    scope,
    windowNo: rowNumber(window, project, atMs),
  });
  return {
    keyOf,
    check: ({ shared, project, event }) => {
      if (shared.used(keyOf(project, event.at)) < max) return undefined;
      const nextEligibleMs = nextWindowMs(window, project, event.at);
      const detail = `${max} ${windowName(window)} of all players`;
      return { reason: "LIMIT_REACHED", detail, ...(nextEligibleMs === undefined ? {} : { nextEligibleMs }) };
    },
    record: ({ shared, project, event }) => shared.add(keyOf(project, event.at), 1),
    refund: ({ shared, project, event }) => shared.add(keyOf(project, event.at), -1),
  };
};

/** `times` of the row: the latest firing time that was dropped, or this, followed by the firing times. */
const NOTHING_DROPPED = Number.MIN_SAFE_INTEGER;

const firingsOf = ([dropped = NOTHING_DROPPED, ...t]: readonly number[]): FiringTimes =>
  dropped === NOTHING_DROPPED ? { t } : { t, f: dropped };

const rollingLimit = (scope: string, { max, window }: Limit): SharedLimit => {
  const spanMs = (window as { rollingSeconds: number }).rollingSeconds * 1_000;
  const keyOf: SharedLimit["keyOf"] = ({ projectId }) => ({ projectId, scope, windowNo: 0 });
  const limit = { max, spanMs, reason: "LIMIT_REACHED" } as const;
  return {
    keyOf,
    check: ({ shared, project, event }) => {
      const refusal = checkRolling(limit, firingsOf(shared.times(keyOf(project, event.at))), event.at);
      return refusal && { ...refusal, detail: `${refusal.detail} of all players` };
    },
    record: ({ shared, project, event }) => {
      const key = keyOf(project, event.at);
      const state = firingsOf(shared.times(key));
      keepTime(state, event.at, Math.max(WINDOWS_KEPT, max));
      shared.setTimes(key, [state.f ?? NOTHING_DROPPED, ...state.t!]);
    },
    refund: ({ shared, project, event }) => {
      const key = keyOf(project, event.at);
      const state = firingsOf(shared.times(key));
      takeTime(state, event.at);
      shared.setTimes(key, [state.f ?? NOTHING_DROPPED, ...(state.t ?? [])]);
    },
  };
};
