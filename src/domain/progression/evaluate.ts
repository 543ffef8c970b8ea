import type { Cause, EventData, EventType } from "../events.ts";
import { scoreEvent, scoreXp } from "../leaderboards/scoring.ts";
import { runRules } from "../rules/run.ts";
import { type OutboxRow, outboxRow } from "../work.ts";
import type { ProjectPlan } from "./setup.ts";
import type { LedgerRow, PlayerState, RuleEvent, Turn } from "./turn.ts";

/** What a batch has to write besides the players themselves. */
export type Effects = { outbox: OutboxRow[]; ledger: LedgerRow[] };

export const noEffects = (): Effects => ({ outbox: [], ledger: [] });

export type TurnParts = {
  plan: ProjectPlan;
  player: PlayerState;
  event: RuleEvent;
  nowMs: number;
  effects: Effects;
  /** The tracked event that the effects belong to; absent for a change by REST. */
  eventId?: string;
};

/** Opens one pass over one player: what it emits becomes outbox rows numbered by the player's stream. */
export const openTurn = ({ plan, player, event, nowMs, effects, eventId }: TurnParts): Turn => ({
  project: plan,
  player,
  event,
  nowMs,
  emit: <T extends EventType>(type: T, data: EventData<T>) => {
    const options = {
      playerId: player.id,
      playerSeq: ++player.seq,
      ...(eventId === undefined ? {} : { eventId }),
    };
    effects.outbox.push(outboxRow(player.projectId, type, data, options));
  },
  ledger: (row) => void effects.ledger.push(row),
  warn: () => undefined,
});

/**
 * Evaluates one event: rules by priority, then leaderboard scores. Pure but for `turn`; no I/O. The order is
 * part of the contract with integrators.
 */
export const evaluateEvent = (plan: ProjectPlan, turn: Turn): void => {
  const { player, event } = turn;
  const xpBefore = player.xp;
  runRules(plan.rules, turn);
  scoreEvent(turn, plan.boardIndex);
  if (player.xp !== xpBefore) scoreXp(turn, plan.boardIndex);
  // Last: until now it is when the player was seen before, which is what a rule for comebacks asks.
  if (player.lastSeenAt === null || event.at > player.lastSeenAt.getTime()) {
    player.lastSeenAt = new Date(event.at);
  }
};

/** Announces a player who has just been made by an event. */
export const announcePlayer = (turn: Turn, source: "EVENT" | "IDENTIFY"): void => {
  const { player } = turn;
  turn.emit("player.created", {
    playerId: player.id,
    externalUserId: player.externalUserId,
    displayName: player.displayName,
    xp: player.xp,
    level: player.level,
    attributes: player.attributes,
    tags: player.tags,
    source,
    createdAt: player.createdAt.toISOString(),
  });
};

/** The pseudo event of a change that no tracked event caused, such as a grant by REST. */
export const changeEvent = (id: string, nowMs: number): RuleEvent => ({
  id,
  type: "system.change",
  at: nowMs,
  properties: {},
});

/** The cause of an effect as the API shows it. */
export const causeOf = (data: Record<string, unknown>, eventId: string): Cause =>
  (data["cause"] as Cause | undefined) ?? { kind: "EVENT", eventId };
