import { boostOf, UNBOOSTED } from "../boosts/boosts.ts";
import type { CapSet } from "../caps/cap.ts";
import { countChange, NO_CAPS, roomFor, warnOfCut } from "../caps/caps.ts";
import type { LedgerRow } from "../effects.ts";
import { appendLedger } from "../ledger/append.ts";
import type { PlayerDoc } from "../player-state.ts";
import { grantBundle } from "../rewards/shared-keys.ts";
import { causeOf, playerOf, type Turn } from "../turn.ts";
import { levelOf } from "./levels.ts";
import type { Cause } from "../../kernel/events/events.ts";
import { calendarOf, windowNumber } from "../../kernel/zones.ts";

/** A reward that was reversed can be granted again, under another key. */
const levelKey = ({ r }: PlayerDoc, level: number): string => {
  const times = r?.[level];
  return times === undefined ? `lvl:${level}` : `lvl:${level}~${times}`;
};

/**
 * Grants the rewards of the levels from `from + 1` to `to`. Each is granted only once: a level that was
 * reached, lost and reached again grants nothing the second time (ledger key `lvl:{n}`). A level without a
 * definition when it is reached grants nothing later either.
 */
export const grantLevelRewards = (turn: Turn, from: number, to: number): void => {
  const { player, project } = turn;
  if (project.levels.size === 0) return;
  const rewarded = Math.max(from, player.doc.v ?? 0);
  if (to <= rewarded) return;
  // First of all, so that a level reached through these rewards is not considered unrewarded.
  player.doc = { ...player.doc, v: to };
  player.dirty.doc = true;
  for (let level = rewarded + 1; level <= to; level++) {
    const definition = project.levels.get(level);
    if (!definition) continue;
    grantBundle(turn, {
      bundle: definition.rewards,
      cause: causeOf(turn, "LEVEL", String(level)),
      key: levelKey(player.doc, level),
      reason: `level:${level}`,
    });
  }
};

/** Maximum of a player's XP: every integer below it is exact in JavaScript and JSON. */
export const XP_MAX = Number.MAX_SAFE_INTEGER;

type XpGrant = {
  /** Signed whole number; a loss never takes XP below 0. */
  amount: number;
  cause: Cause;
  /** Deterministic ledger key: the same key never grants twice. */
  key: string;
  reason: string;
  /** Whether boosts on `xp` multiply a gain, and the project's daily soft cap reduces it. */
  boostable?: boolean;
  /** Caps that cut a gain, and count it: those of a rule that gives it. */
  caps?: readonly CapSet[];
};

/**
 * Changes the player's XP: ledger entry, `player.xp_granted` for a gain or `player.updated` for a loss, level
 * at once, `player.level_up` for a rise.
 * XP never falls below 0 and never exceeds XP_MAX; a change of 0 leaves no trace.
 * @returns the ledger entry, or undefined when nothing changed
 */
export const grantXp = (turn: Turn, grant: XpGrant): LedgerRow | undefined => {
  const { player } = turn;
  const { cause, key, reason, caps = NO_CAPS } = grant;
  const { amount, boostFactor } = effective(turn, grant);
  const xp = Math.min(XP_MAX, Math.max(0, player.xp + amount));
  const change = xp - player.xp;
  if (change === 0) return undefined;
  player.xp = xp;
  countChange(turn, caps, { asset: "xp", change });
  const previousLevel = player.level;
  const reached = levelOf(turn.project.curve, xp);
  player.level = turn.project.settings.allowLevelDown ? reached : Math.max(previousLevel, reached);
  const entry = appendLedger(turn, { asset: "XP", amount: change, balanceAfter: xp, reason, key, cause });
  if (change > 0) {
    turn.emit("player.xp_granted", {
      ...playerOf(turn),
      amount: change,
      baseAmount: grant.amount,
      boostFactor,
      xp,
      level: player.level,
      ledgerEntryId: entry.id,
      cause,
    });
  }
  // A loss has no event type of its own; the stream must still publish it.
  if (change < 0) emitLoss(turn, { xp: xp - change, level: previousLevel }, cause);
  if (player.level > previousLevel) {
    turn.emit("player.level_up", { ...playerOf(turn), previousLevel, newLevel: player.level, xp });
    grantLevelRewards(turn, previousLevel, player.level);
  }
  return entry;
};

/**
 * `boostFactor`: of boosts; where the daily soft cap or a cap reduced the gain, the ratio of the result to
 * the input.
 */
type Effective = { amount: number; boostFactor: number };

const effective = (turn: Turn, { amount, boostable = false, caps = NO_CAPS }: XpGrant): Effective => {
  if (amount <= 0) return { amount, boostFactor: 1 };
  const room = roomFor(turn, "xp", caps);
  const { boosted, factor } = boostable ? boost(turn, amount, room) : { boosted: amount, factor: 1 };
  const counted = boostable ? underSoftCap(turn, boosted, room) : Math.min(room, boosted);
  if (counted === room && room < boosted) warnOfCut(turn, { asset: "xp", wanted: boosted, room });
  const boostFactor = counted === boosted ? factor : Math.round((counted / amount) * 1e6) / 1e6;
  return { amount: counted, boostFactor };
};

/** Uses boosts, unless nothing can be given. */
const boost = (turn: Turn, amount: number, room: number): { boosted: number; factor: number } => {
  const isPossible = turn.player.xp < XP_MAX && room > 0;
  const { factor, use } = isPossible ? boostOf(turn, "xp") : UNBOOSTED;
  use();
  return { boosted: Math.round(Math.min(XP_MAX, amount * factor)), factor };
};

/**
 * Applies the daily soft cap to a gain, of which `room` may be given. The part of a day's sum beyond the soft
 * cap counts `factorAbove` times, rounded down for the day as a whole, so that many small gains come to what
 * one large gain does. A late event counts in the day that is kept.
 */
const underSoftCap = (turn: Turn, wanted: number, room: number): number => {
  const { player, project, event } = turn;
  const cap = project.settings.xpDailySoftCap;
  if (cap === null) return Math.min(room, wanted);
  const dayNumber = windowNumber("DAY", calendarOf(project, player.timezone), event.at);
  const [keptDay, keptXp] = player.doc.x ?? [dayNumber, 0];
  const isNewDay = dayNumber > keptDay;
  const before = isNewDay ? 0 : keptXp;
  const counted = (sum: number) =>
    sum <= cap.xp ? sum : cap.xp + Math.floor((sum - cap.xp) * cap.factorAbove);
  const givenOf = (gain: number) => counted(Math.min(XP_MAX, before + gain)) - counted(before);
  const gain = givenOf(wanted) > room ? leastGain(givenOf, wanted, room) : wanted;
  player.doc.x = [isNewDay ? dayNumber : keptDay, Math.min(XP_MAX, before + gain)];
  player.dirty.doc = true;
  return givenOf(gain);
};

/** Returns the least gain, up to `most`, of which `room` is given: the result never falls as it grows. */
const leastGain = (givenOf: (gain: number) => number, most: number, room: number): number => {
  let [low, high] = [0, most];
  while (low < high) {
    const middle = Math.floor((low + high) / 2);
    if (givenOf(middle) >= room) high = middle;
    else low = middle + 1;
  }
  return low;
};

const emitLoss = (turn: Turn, before: { xp: number; level: number }, cause: Cause): void => {
  const { xp, level } = turn.player;
  const changed = level === before.level ? ["xp"] : ["xp", "level"];
  turn.emit("player.updated", { ...playerOf(turn), changed, before, after: { xp, level }, cause });
};
