import type { Cause } from "../../kernel/events/events.ts";
import { Lives as LivesShape, type LivesView } from "../../kernel/events/shapes.ts";
import { isoOf } from "../../kernel/iso-time.ts";
import { appendLedger } from "../ledger/append.ts";
import type { PlayerState } from "../player-state.ts";
import type { LivesSettings } from "../project-settings.ts";
import type { LedgerRow } from "../effects.ts";
import { playerOf, type Turn } from "../turn.ts";

/** Lives as the API shows them. */
export const ShownLives = LivesShape.extend({
  nextLifeAt: LivesShape.shape.nextLifeAt.meta({ description: "Null when full" }),
  fullAt: LivesShape.shape.fullAt.meta({ description: "Null when full" }),
}).meta({ id: "Lives" });

/** Maximum lives of a player, also where grants may exceed the project's maximum. */
export const LIVES_MAX = 1_000_000;
/** Maximum seconds of unlimited lives per grant. */
export const UNLIMITED_SECONDS_MAX = 30 * 86_400;
/** How far ahead unlimited lives may last, in ms. */
export const UNLIMITED_AHEAD_MAX_MS = 365 * 86_400_000;

/** Exactly one of `amount` (signed), `refill` and `unlimitedSeconds`. */
export type LivesChange = {
  amount?: number | undefined;
  refill?: "FULL" | undefined;
  unlimitedSeconds?: number | undefined;
  onInsufficient?: "REFUSE" | "CLAMP";
  cause: Cause;
  key: string;
  reason: string;
};

export type LivesChanged = { entry?: LedgerRow; problem?: "INSUFFICIENT_LIVES" | "LIVES_DISABLED" };

/** Lives computed for a moment; `anchorMs` is when the running refill began. */
export type Lives = { count: number; anchorMs: number };

/**
 * Computes the lives at a moment: min(max, stored + whole refills since the anchor), without any timer. At or
 * above the maximum nothing refills. Computing them at intermediate moments does not change later results.
 */
export const livesAt = (
  { max, refillSeconds, refillAmount }: LivesSettings,
  { count, anchorMs }: Lives,
  nowMs: number,
): Lives => {
  if (count >= max) return { count, anchorMs: nowMs };
  const refillMs = refillSeconds * 1_000;
  const refills = Math.max(0, Math.floor((nowMs - anchorMs) / refillMs));
  const refilled = Math.min(max, count + refills * refillAmount);
  return { count: refilled, anchorMs: refilled < max ? anchorMs + refills * refillMs : nowMs };
};

type Owner = Pick<PlayerState, "lives" | "createdAt">;

/** Returns a player's lives; those that never changed have their initial number since the player was created. */
const livesOf = (settings: LivesSettings, { lives, createdAt }: Owner, nowMs: number): Lives => {
  const { count, anchorMs } = lives;
  const stored = { count: count ?? settings.start, anchorMs: anchorMs ?? createdAt.getTime() };
  return livesAt(settings, stored, nowMs);
};

/** Returns the regenerated number of lives at the turn's time; undefined where the project has no lives. */
export const currentLives = ({
  player,
  project,
  nowMs,
}: Pick<Turn, "player" | "project" | "nowMs">): number | undefined => {
  const { lives } = project.settings;
  return lives.enabled ? livesOf(lives, player, nowMs).count : undefined;
};

/** Converts lives to the API representation; null where the project has none. */
export const showLives = (settings: LivesSettings, player: Owner, nowMs: number): LivesView | null => {
  if (!settings.enabled) return null;
  const { max, refillSeconds, refillAmount } = settings;
  const { count, anchorMs } = livesOf(settings, player, nowMs);
  const isFull = count >= max;
  const until = player.lives.unlimitedUntilMs;
  const refillMs = refillSeconds * 1_000;
  return {
    current: count,
    max,
    nextLifeAt: isFull ? null : isoOf(anchorMs + refillMs),
    fullAt: isFull ? null : isoOf(anchorMs + Math.ceil((max - count) / refillAmount) * refillMs),
    unlimitedUntil: until !== null && until > nowMs ? isoOf(until) : null,
  };
};

/**
 * Changes lives: ledger entry, `player.lives_changed`. A loss while lives are unlimited succeeds without
 * effect; a gain stops at the maximum unless the project allows more. Refills by time have no entry.
 */
export const adjustLives = (turn: Turn, change: LivesChange): LivesChanged => {
  const { player } = turn;
  const settings = turn.project.settings.lives;
  if (!settings.enabled) return { problem: "LIVES_DISABLED" };
  if (change.unlimitedSeconds !== undefined) return unlimit(turn, change.unlimitedSeconds, change.cause);
  const { count, anchorMs } = livesOf(settings, player, turn.nowMs);
  const wanted = change.refill === "FULL" ? gainToFull(turn, count) : (change.amount ?? 0);
  if (wanted < 0 && isUnlimited(turn)) return {};
  if (count + wanted < 0 && change.onInsufficient === "REFUSE") return { problem: "INSUFFICIENT_LIVES" };
  const after = bounded(turn, count, wanted);
  const delta = after - count;
  if (delta === 0) return {};
  player.lives = { ...player.lives, count: after, anchorMs };
  const { cause, key, reason } = change;
  const line = { asset: "LIVES", amount: delta, balanceAfter: after } as const;
  const entry = appendLedger(turn, { ...line, reason, key, cause });
  publish(turn, delta, cause);
  return { entry };
};

const isUnlimited = ({ player, nowMs }: Turn): boolean => (player.lives.unlimitedUntilMs ?? 0) > nowMs;

const gainToFull = ({ project }: Turn, count: number): number =>
  Math.max(0, project.settings.lives.max - count);

const bounded = ({ project }: Turn, count: number, change: number): number => {
  if (change < 0) return Math.max(0, count + change);
  const { max, allowOverMax } = project.settings.lives;
  const ceiling = allowOverMax ? LIVES_MAX : max;
  return Math.max(count, Math.min(ceiling, count + change));
};

/** Extends the remaining time of unlimited lives. */
const unlimit = (turn: Turn, seconds: number, cause: Cause): LivesChanged => {
  const { player, nowMs } = turn;
  const from = Math.max(nowMs, player.lives.unlimitedUntilMs ?? 0);
  const unlimitedUntilMs = Math.min(from + seconds * 1_000, nowMs + UNLIMITED_AHEAD_MAX_MS);
  player.lives = { ...player.lives, unlimitedUntilMs };
  publish(turn, 0, cause);
  return {};
};

const publish = (turn: Turn, delta: number, cause: Cause): void => {
  const lives = showLives(turn.project.settings.lives, turn.player, turn.nowMs)!;
  turn.emit("player.lives_changed", { ...playerOf(turn), delta, lives, cause });
};
