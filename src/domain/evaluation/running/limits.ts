import { addToWindow, type Amount, amountIn, type CapSet, WINDOWS_KEPT } from "../caps/cap.ts";
import type { Limit, RuleDocument } from "../language/document.ts";
import type { PlayerDoc } from "../player-state.ts";
import type { RuleStep } from "../rule-event.ts";
import {
  checkRolling,
  compileBudgets,
  type CompiledBudget,
  compileSharedLimits,
  keepTime,
  LATE,
  type LimitState,
  type Refusal,
  type RollingLimit,
  type SharedLimit,
  takeTime,
} from "./budgets.ts";
import { growthOf, recordGrowth, type Turn } from "../turn.ts";
import { firstOf } from "../../kernel/first.ts";
import { fnv1a } from "../../kernel/ids.ts";
import {
  CALENDAR_UNITS,
  type CalendarUnit,
  type Calendar,
  calendarOf,
  windowNumber,
  windowStart,
} from "../../kernel/zones.ts";

const SLOT = { DAY: "d", WEEK: "w", MONTH: "m" } as const satisfies Record<CalendarUnit, keyof LimitState>;

/** A rule's limits for one player. `check` changes nothing; `record` counts a firing. */
type CompiledLimits = {
  check(turn: Turn): Refusal | undefined;
  record(turn: Turn): void;
  /** Removes a firing at the time of the turn's event, if its window is still kept. */
  refund(turn: Turn): void;
};

type CalendarLimit = { max: number; unit: CalendarUnit };
type LimitParts = { lifetimeMax: number; calendar: CalendarLimit[]; rolling: RollingLimit[] };

const NONE: LimitState = {};
/** Maximum bytes of JSON that a firing adds to a document: those of a rule that had not fired. */
const GROWTH_MAX = 200;

const calendarFor = ({ player, project }: Turn): Calendar => calendarOf(project, player.timezone);

const isCalendar = (limit: Limit): limit is Limit & { window: CalendarUnit } =>
  CALENDAR_UNITS.includes(limit.window as CalendarUnit);

const partsOf = ({ perPlayer, cooldownSeconds }: NonNullable<RuleDocument["limits"]>): LimitParts => {
  const rolling: RollingLimit[] = [];
  // A cooldown is a span in which the rule fires once.
  if (cooldownSeconds !== undefined)
    rolling.push({ max: 1, spanMs: cooldownSeconds * 1_000, reason: "COOLDOWN" });
  for (const { max, window } of perPlayer) {
    if (typeof window === "object")
      rolling.push({ max, spanMs: window.rollingSeconds * 1_000, reason: "LIMIT_REACHED" });
  }
  const lifetime = perPlayer.filter(({ window }) => window === "LIFETIME").map(({ max }) => max);
  const calendar = perPlayer.filter(isCalendar).map(({ max, window: unit }) => ({ max, unit }));
  return { lifetimeMax: Math.min(...lifetime), calendar, rolling };
};

/**
 * Compiles a rule's limits; undefined when it has none, and then nothing is stored about it.
 * @param ruleId the key of the state: for a rule in SHADOW with `~` in front
 */
const compileLimits = (ruleId: string, limits: RuleDocument["limits"]): CompiledLimits | undefined => {
  if (!limits || (limits.perPlayer.length === 0 && limits.cooldownSeconds === undefined)) return undefined;
  const parts = partsOf(limits);
  const units = [...new Set(parts.calendar.map(({ unit }) => unit))];
  const windowsAt = (turn: Turn): [slot: Slot, window: number][] =>
    units.map((unit) => [SLOT[unit], windowNumber(unit, calendarFor(turn), turn.event.at)]);
  const timesKept =
    parts.rolling.length === 0 ? 0 : Math.max(WINDOWS_KEPT, ...parts.rolling.map(({ max }) => max));
  return {
    check: (turn) => {
      const state = stateOf(turn.player.doc, ruleId);
      return (
        checkLifetime(parts, state) ??
        firstOf(parts.calendar, (limit) => checkCalendar(limit, state, turn)) ??
        firstOf(parts.rolling, (limit) => checkRolling(limit, state, turn.event.at))
      );
    },
    record: (turn) => {
      const { player, event } = turn;
      const state: LimitState = { ...stateOf(player.doc, ruleId) };
      if (parts.lifetimeMax !== Infinity) state.n = (state.n ?? 0) + 1;
      for (const [slot, window] of windowsAt(turn)) state[slot] = addToWindow(state[slot] ?? [], window, 1);
      if (timesKept > 0) keepTime(state, event.at, timesKept);
      const old = player.doc.l?.[ruleId];
      recordGrowth(turn, { most: GROWTH_MAX, grown: () => growthOf(`"${ruleId}":,`, old, state) });
      (player.doc.l ??= {})[ruleId] = state;
      player.dirty.doc = true;
    },
    refund: (turn) => {
      const { player, event } = turn;
      const known = player.doc.l?.[ruleId];
      if (known === undefined) return;
      const left = without(known as LimitState, windowsAt(turn), event.at);
      if (left) player.doc.l![ruleId] = left;
      else delete player.doc.l![ruleId];
      player.dirty.doc = true;
    },
  };
};

type Slot = (typeof SLOT)[CalendarUnit];

/** Returns the state without one firing; undefined when nothing is left of it. */
const without = (
  known: LimitState,
  windows: readonly (readonly [slot: Slot, window: number])[],
  at: number,
): LimitState | undefined => {
  const state: LimitState = { ...known };
  if (state.n !== undefined && --state.n <= 0) delete state.n;
  for (const [slot, window] of windows) {
    const kept = (state[slot] ?? []).map(([number, firings]): Amount => [
      number,
      number === window ? firings - 1 : firings,
    ]);
    state[slot] = kept.filter(([, firings]) => firings > 0);
    if (state[slot].length === 0) delete state[slot];
  }
  takeTime(state, at);
  return Object.keys(state).length === 0 ? undefined : state;
};

const stateOf = ({ l }: PlayerDoc, ruleId: string): LimitState =>
  l && Object.hasOwn(l, ruleId) ? (l[ruleId] as LimitState) : NONE;

const checkLifetime = ({ lifetimeMax }: LimitParts, { n = 0 }: LimitState): Refusal | undefined =>
  n < lifetimeMax ? undefined : { reason: "LIMIT_REACHED", detail: `${lifetimeMax} LIFETIME` };

const checkCalendar = ({ max, unit }: CalendarLimit, state: LimitState, turn: Turn): Refusal | undefined => {
  const kept = state[SLOT[unit]];
  if (!kept) return undefined;
  const calendar = calendarFor(turn);
  const window = windowNumber(unit, calendar, turn.event.at);
  const firings = amountIn(kept, window);
  if (firings === undefined) return { reason: "LIMIT_REACHED", detail: LATE };
  if (firings < max) return undefined;
  return {
    reason: "LIMIT_REACHED",
    detail: `${max} ${unit}`,
    nextEligibleMs: windowStart(unit, calendar, window + 1),
  };
};

/** IN: the rule applies. OUT: not included. HELD: included, evaluated and recorded, without effect. */
export type Bucket = "IN" | "OUT" | "HELD";

const PARTS = 10_000;

/**
 * Compiles the selection of players for a rule: by a hash, so that it is stable while the salt is, and
 * players included at 10 % are included at 20 %. A second hash selects the holdout among those included.
 * @returns undefined for a rule that applies to everybody
 */
export const compileRollout = (
  ruleKey: string,
  rollout: RuleDocument["rollout"],
): ((playerId: string) => Bucket) | undefined => {
  if (!rollout) return undefined;
  const { percent, holdoutPercent, salt = "" } = rollout;
  if (percent === 100 && holdoutPercent === 0) return undefined;
  const isBelow = (text: string, share: number): boolean => fnv1a(text) % PARTS < share * 100;
  return (playerId) => {
    if (!isBelow(`${ruleKey}${salt}${playerId}`, percent)) return "OUT";
    return isBelow(`holdout\0${ruleKey}${salt}${playerId}`, holdoutPercent) ? "HELD" : "IN";
  };
};

/** Checks that decide, after its conditions, whether a rule fires. */
export type RuleControls = {
  /** For one player. */
  limits: CompiledLimits | undefined;
  /** Across all players. */
  globalLimits: readonly SharedLimit[];
  budgets: readonly CompiledBudget[];
  rollout: ((playerId: string) => Bucket) | undefined;
  /** The most that the rule gives a player. */
  caps: CapSet | undefined;
  /** The rule's step in chains of derived events. */
  step: RuleStep;
};

type Controlled = { id: string; key: string; isShadow: boolean; definition: RuleDocument };

/** Compiles a rule's limits, budgets and rollout. A rule in SHADOW has counters of its own. */
export const compileControls = ({ id, key, isShadow, definition }: Controlled): RuleControls => {
  const mark = isShadow ? "~" : "";
  const { limits, rollout } = definition;
  return {
    limits: compileLimits(`${mark}${id}`, limits),
    globalLimits: compileSharedLimits(`${mark}rule:${id}`, limits),
    budgets: compileBudgets(`${mark}rule:${id}`, limits),
    rollout: compileRollout(key, rollout),
    caps: limits?.caps && limits.caps.length > 0 ? { scope: `${mark}${id}`, caps: limits.caps } : undefined,
    step: { ruleId: id, ruleKey: key },
  };
};
