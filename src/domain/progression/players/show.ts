import { balanceNow } from "../../evaluation/currencies/balance.ts";
import type { LivesView } from "../../kernel/events/events.ts";
import { showLives } from "../../evaluation/lives/lives.ts";
import { type LevelProgress, levelProgress } from "../../evaluation/xp/levels.ts";
import { emptyHoldings } from "../load.ts";
import { loadStates } from "../load-states.ts";
import { balances, dueLots } from "../parts/balances.ts";
import { knownPlan } from "../locked-plan.ts";
import { projectPlans, readPlan } from "../plan.ts";
import type { PlayerState } from "../../evaluation/player-state.ts";
import type { ProjectPlan } from "../../evaluation/project-plan.ts";
import type { Work } from "../../kernel/work.ts";
import type { Player, PlayerStatus } from "../../players/player.ts";

/** A player in the API. Times are ISO 8601. */
export type ShownPlayer = {
  id: string;
  externalUserId: string;
  displayName: string | null;
  xp: number;
  level: number;
  levelProgress: LevelProgress;
  currencies: Record<string, number>;
  /** Null where the project has no lives. */
  lives: LivesView | null;
  status: PlayerStatus;
  avatarUrl: string | null;
  timezone: string | null;
  locale: string | null;
  country: string | null;
  attributes: Record<string, unknown>;
  metadata: Record<string, unknown>;
  tags: string[];
  seq: number;
  firstSeenAt: string;
  lastSeenAt: string | null;
  createdAt: string;
  updatedAt: string;
};

const orNull = <T>(value: T | null | undefined): T | null => value ?? null;
const msOf = (value: Date | null | undefined): number | null => value?.getTime() ?? null;

/** Converts a player, read without a lock, to evaluation's state with no holdings loaded. */
export const stateOfPlayer = (player: Player): PlayerState => ({
  id: player.id,
  projectId: player.projectId,
  externalUserId: player.externalUserId,
  displayName: orNull(player.displayName),
  status: player.status,
  xp: player.xp,
  level: player.level,
  seq: player.seq,
  ledgerSeq: player.ledgerSeq,
  ledgerHash: orNull(player.ledgerHash),
  lives: {
    count: orNull(player.lives),
    anchorMs: msOf(player.livesAnchorAt),
    unlimitedUntilMs: msOf(player.livesUnlimitedUntil),
  },
  zoneChangedMs: msOf(player.zoneChangedAt),
  timezone: orNull(player.timezone),
  locale: orNull(player.locale),
  country: orNull(player.country),
  attributes: player.attributes,
  tags: player.tags,
  createdAt: player.createdAt,
  firstSeenAt: orNull(player.firstSeenAt),
  lastSeenAt: orNull(player.lastSeenAt),
  activeMonth: null,
  ...emptyHoldings(),
});

/** Converts players of one project, with their holdings, to the API representation: constant statements. */
export const showPlayers = async (
  work: Work,
  projectId: string,
  players: readonly Player[],
): Promise<ShownPlayer[]> => {
  const plan = knownPlan(work, projectId) ?? (await readPlan(work, projectId, projectPlans));
  const states = players.map(stateOfPlayer);
  const parts = [balances, dueLots(work.now)].filter((part) => part.isNeeded(plan));
  if (parts.length > 0) await loadStates(work, states, [plan], parts);
  return players.map((player, i) =>
    showPlayerOf(plan, { player, state: states[i]!, nowMs: work.now.getTime() }),
  );
};

/** One player; see `showPlayers`. */
export const showPlayer = async (work: Work, player: Player): Promise<ShownPlayer> =>
  (await showPlayers(work, player.projectId, [player]))[0]!;

type Shown = { player: Player; state: PlayerState; nowMs: number };

/** Converts a player, with their balances in `state`, to the API representation. */
export const showPlayerOf = (plan: ProjectPlan, { player, state, nowMs }: Shown): ShownPlayer => ({
  id: player.id,
  externalUserId: player.externalUserId,
  displayName: player.displayName ?? null,
  xp: player.xp,
  level: player.level,
  levelProgress: progressOf(plan, player),
  currencies: currenciesOf(plan, state, nowMs),
  lives: showLives(plan.settings.lives, state, nowMs),
  status: player.status,
  avatarUrl: player.avatarUrl ?? null,
  timezone: player.timezone ?? null,
  locale: player.locale ?? null,
  country: player.country ?? null,
  attributes: player.attributes,
  metadata: player.metadata,
  tags: player.tags,
  seq: player.seq,
  firstSeenAt: (player.firstSeenAt ?? player.createdAt).toISOString(),
  lastSeenAt: player.lastSeenAt?.toISOString() ?? null,
  createdAt: player.createdAt.toISOString(),
  updatedAt: player.updatedAt.toISOString(),
});

const progressOf = ({ curve, levels }: ProjectPlan, player: Player): LevelProgress => {
  const progress = levelProgress(curve, player);
  return { ...progress, levelName: levels.get(progress.level)?.name ?? null };
};

/** Returns the current balances of the project's currencies by key. */
const currenciesOf = (project: ProjectPlan, player: PlayerState, nowMs: number): Record<string, number> =>
  Object.fromEntries(
    [...project.currencies.keys()].map((key) => [key, balanceNow({ player, project, nowMs }, key)!.balance]),
  );
