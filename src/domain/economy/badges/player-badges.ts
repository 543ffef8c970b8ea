import { type RawBuilder, sql } from "kysely";
import { z } from "zod";
import { isoOf } from "../../kernel/iso-time.ts";
import { readCounted, type Work } from "../../kernel/work.ts";
import { readDefinition } from "../definitions/definitions.ts";
import { conflict, type DomainError, invalid } from "../../kernel/errors.ts";
import type { Cause } from "../../kernel/events/events.ts";
import { newId } from "../../kernel/ids.ts";
import { offsetOf, orderBy, type Ordered, type PageQuery, type SortOf } from "../../kernel/paging.ts";
import { checkActive } from "../../evaluation/player-state.ts";
import { changePlayer, type PlayerKey } from "../../progression/change.ts";
import { alongside, type Loadable } from "../../progression/parts/part.ts";
import type { PlanTurn } from "../../evaluation/project-plan.ts";
import { together } from "../../kernel/together.ts";
import {
  awardBadge,
  type BadgeProblem,
  badgeStateOf,
  progressBadge,
  revokeBadge,
} from "../../evaluation/badges/award.ts";
import { type Badge, RARITIES } from "../../evaluation/badges/badge.ts";
import { earnedByPercent, rarityAlong } from "./rarity.ts";

/** A badge as one player has it. */
export const PlayerBadgeBody = z
  .object({
    badgeKey: z.string(),
    badgeId: z.uuid(),
    name: z.string(),
    description: z.string().nullable(),
    iconUrl: z.string().nullable().meta({ description: "Of the tier that is held, else of the badge" }),
    category: z.string().nullable(),
    rarity: z.enum(RARITIES),
    points: z.int(),
    secret: z.boolean().meta({ description: "Hidden from players who do not hold it" }),
    tier: z.int().meta({ description: "0: not held" }),
    tierName: z.string().nullable(),
    maxTier: z.int(),
    progress: z.number(),
    nextThreshold: z.number().nullable().meta({ description: "Of the next tier that has one" }),
    percent: z.int().meta({ description: "Of the way to nextThreshold; 100 where every tier is held" }),
    timesAwarded: z.int(),
    serialNo: z.int().nullable().meta({ description: "Of a limited edition" }),
    firstEarnedAt: z.iso.datetime().nullable(),
    lastEarnedAt: z.iso.datetime().nullable(),
    revokedAt: z.iso
      .datetime()
      .nullable()
      .meta({ description: "When it was taken away, where it has not come back" }),
    earnedByPercent: z.number().nullable().meta({
      description: "Of ACTIVE players. Up to an hour old above 1,000 players; null above 100,000",
    }),
  })
  .meta({ id: "PlayerBadge" });
export type PlayerBadge = z.output<typeof PlayerBadgeBody>;

type Row = Pick<PlayerBadge, "tier" | "progress" | "timesAwarded" | "serialNo"> &
  Record<"firstEarnedAt" | "lastEarnedAt" | "revokedAt", Date | string | null> & {
    id: string;
    definition: Badge;
  };

const progressOf = ({ tiers }: Badge, tier: number, progress: number) => {
  if (tier >= tiers.length) return { nextThreshold: null, percent: 100 };
  const next = tiers.slice(tier).find(({ threshold }) => threshold !== undefined)?.threshold;
  if (next === undefined) return { nextThreshold: null, percent: 0 };
  return { nextThreshold: next, percent: Math.min(100, Math.floor((progress / next) * 100)) };
};

/** Returns the definition's view of the badge for a player who holds the tier of the row. */
const describe = ({ id: badgeId, definition: badge, tier }: Row) => {
  const held = tier === 0 ? undefined : badge.tiers[tier - 1];
  return {
    badgeKey: badge.key,
    badgeId,
    name: badge.name,
    description: badge.description ?? null,
    iconUrl: held?.iconUrl ?? badge.iconUrl ?? null,
    category: badge.category ?? null,
    rarity: badge.rarity,
    points: badge.points,
    secret: badge.secret,
    tier,
    tierName: held?.name ?? null,
    maxTier: badge.tiers.length,
  };
};

const show = (row: Row, percents: ReadonlyMap<string, number>): PlayerBadge => {
  const { definition, tier, progress, timesAwarded, serialNo } = row;
  return {
    ...describe(row),
    progress,
    ...progressOf(definition, tier, progress),
    timesAwarded,
    serialNo,
    firstEarnedAt: isoOf(row.firstEarnedAt),
    lastEarnedAt: isoOf(row.lastEarnedAt),
    revokedAt: isoOf(row.revokedAt),
    earnedByPercent: percents.get(definition.key) ?? null,
  };
};

export const BADGE_STATES = ["HELD", "IN_PROGRESS", "ALL"] as const;
export type BadgeState = (typeof BADGE_STATES)[number];

/** Held badges are always shown, others only while the badge exists. */
const STATES: Readonly<Record<BadgeState, RawBuilder<unknown>>> = {
  HELD: sql`b.tier > 0`,
  IN_PROGRESS: sql`d.status = 'ACTIVE' and b.tier = 0 and b.progress > 0`,
  ALL: sql`(d.status = 'ACTIVE' or b.tier > 0)`,
};

const COLUMNS = sql`d.id, d.definition, coalesce(b.tier, 0) as tier, coalesce(b.progress, 0) as progress,
  coalesce(b.times_awarded, 0) as "timesAwarded", b.serial_no as "serialNo",
  b.first_earned_at as "firstEarnedAt", b.last_earned_at as "lastEarnedAt", b.revoked_at as "revokedAt"`;

const select = ({ projectId, id }: PlayerKey, where: RawBuilder<unknown>, rest: RawBuilder<unknown>) => sql<
  Row & { total: number }
>`
  select ${COLUMNS}, count(*) over () as total
  from definitions d left join player_badges b
    on b.project_id = d.project_id and b.player_id = ${id} and b.badge_key = d.key
  where d.project_id = ${projectId} and d.kind = 'badge' and ${where} ${rest}`;

/** Orders of the list. */
export const PLAYER_BADGE_ORDERS = { by: { key: sql`d.key` }, usual: "asc" } as const;

type ListPlayerBadges = PageQuery &
  Ordered<SortOf<typeof PLAYER_BADGE_ORDERS>> & { state: BadgeState; category?: string | undefined };

/** Lists a player's badges by key; ALL includes the project's badges that the player does not hold. */
export const listPlayerBadges = async (
  work: Work,
  player: PlayerKey,
  query: ListPlayerBadges,
): Promise<{ badges: PlayerBadge[]; total: number }> => {
  const { state, category = null } = query;
  const where = sql`${STATES[state]}
    and (${category}::text is null or d.definition ->> 'category' = ${category})`;
  const page = sql`order by ${orderBy(PLAYER_BADGE_ORDERS, query, sql`d.key`)}
    limit ${query.limit} offset ${offsetOf(query)}`;
  const { rows, total } = await readCounted(work, (rest) => select(player, where, rest), page);
  const keys = rows.map(({ definition }) => definition.key);
  const percents = await earnedByPercent(work, player.projectId, keys);
  return { badges: rows.map((row) => show(row, percents)), total };
};

/** Maximum badges of each state that are included with a player. */
const INCLUDED_MAX = 100;

/** Reads badges along with a player's parts: those that the player holds, then those in progress, by key. */
export const badgesAlong = (
  work: Work,
  player: PlayerKey,
): { parts: Loadable[]; read: () => Promise<PlayerBadge[]> } => {
  const page = sql`order by d.key limit ${INCLUDED_MAX}`;
  const [held, begun] = [select(player, STATES.HELD, page), select(player, STATES.IN_PROGRESS, page)];
  const rows: Row[] = [];
  const part = alongside(
    "bg",
    sql`select 'bg', -1, null::text, row_to_json(x) from (
      (${held}) union all (${begun})) x`,
    (_, row) => void rows.push(row as Row),
  );
  const rarity = rarityAlong(work, player);
  return {
    parts: [part, ...rarity.parts],
    read: async () => {
      const percents = await rarity.read(rows.map(({ definition }) => definition.key));
      return rows.map((row) => show(row, percents));
    },
  };
};

/** A badge of a player. */
type BadgeRef = { player: PlayerKey; key: string };

/** Returns one badge as a player has it after a change in this transaction. */
const getPlayerBadge = together({
  phase: "SHOW",
  isWrite: false,
  run: async (work, refs: readonly BadgeRef[]) => {
    const { projectId } = refs[0]!.player;
    const asked = JSON.stringify(refs.map(({ player, key }, n) => ({ n, p: player.id, k: key })));
    const { rows } = await sql<Row & { n: number }>`
      select r.n, ${COLUMNS}
      from json_to_recordset(${asked}::json) as r(n int, p uuid, k text)
      join definitions d on d.project_id = ${projectId} and d.kind = 'badge' and d.key = r.k
      left join player_badges b
        on b.project_id = d.project_id and b.player_id = r.p and b.badge_key = d.key`.execute(work.db);
    const byPlace = new Map(rows.map((row) => [row.n, row]));
    const percents = await earnedByPercent(work, projectId, [...new Set(refs.map(({ key }) => key))]);
    return refs.map((_, n) => ({ value: show(byPlace.get(n)!, percents) }));
  },
});

const errorOf = (problem: BadgeProblem, badgeKey: string): DomainError => {
  switch (problem) {
    case "UNKNOWN_TIER":
      return invalid("tier", `the badge ${badgeKey} has no such tier`);
    case "SOLD_OUT":
      return conflict("OUT_OF_STOCK", `all awards of the badge ${badgeKey} are given`);
    case "FOLLOWS_METRIC":
      return conflict("INVALID_STATE", `progress of the badge ${badgeKey} follows a metric`);
    case "NOT_HELD":
      return conflict("INVALID_STATE", `the player does not hold the badge ${badgeKey}`);
    case "NOT_AVAILABLE":
      return conflict("NOT_AVAILABLE", `the badge ${badgeKey} is not available now`);
    case "UNKNOWN_BADGE":
      return conflict("INVALID_STATE", `the badge ${badgeKey} is archived`);
  }
};

type Change = (turn: PlanTurn, badgeKey: string) => BadgeProblem | undefined;
type ChangeOptions = NonNullable<Parameters<typeof changePlayer>[3]>;

/** Changes a badge of a player by REST. `ref`: the badge's UUID or key. */
export const changeBadge = async (
  work: Work,
  player: PlayerKey,
  { ref, change, ...options }: ChangeOptions & { ref: string; change: Change },
): Promise<PlayerBadge> => {
  const { projectId } = player;
  const { key: badgeKey } = await readDefinition(work, { projectId, kind: "badge", ref });
  const apply = (turn: PlanTurn) => {
    const problem = change(turn, badgeKey);
    if (problem !== undefined) throw errorOf(problem, badgeKey);
    return () => undefined;
  };
  const changed = await changePlayer(work, player, apply, options);
  return getPlayerBadge(work, { player: { projectId, id: changed.player.id }, key: badgeKey });
};

const newKey = (): string => `api:${newId()}`;

type AwardByHand = { badge: string; tier?: number | undefined; cause: Cause };

/**
 * Awards a badge by REST. A held badge that is not repeatable stays unchanged.
 * @throws DomainError NOT_FOUND; VALIDATION_ERROR; CONFLICT: OUT_OF_STOCK, NOT_AVAILABLE, INVALID_STATE,
 * PLAYER_INACTIVE
 */
export const awardByHand = (work: Work, player: PlayerKey, award: AwardByHand): Promise<PlayerBadge> =>
  changeBadge(work, player, {
    ref: award.badge,
    change: (turn, badgeKey) => {
      checkActive(turn.player);
      return awardBadge(turn, { badgeKey, tier: award.tier, cause: award.cause, key: newKey() });
    },
  });

/** Exactly one of `add` and `set`. */
type ProgressByHand = {
  badge: string;
  add?: number | undefined;
  set?: number | undefined;
  cause: Cause;
};

/** Changes progress by REST. @throws DomainError as awardByHand */
export const progressByHand = (
  work: Work,
  player: PlayerKey,
  progress: ProgressByHand,
): Promise<PlayerBadge> =>
  changeBadge(work, player, {
    ref: progress.badge,
    change: (turn, badgeKey) => {
      checkActive(turn.player);
      const { add, set, cause } = progress;
      const amount = add ?? set! - badgeStateOf(turn, badgeKey).progress;
      return progressBadge(turn, { badgeKey, amount, cause, key: newKey() });
    },
  });

/** Revokes a badge by REST. @throws DomainError NOT_FOUND; CONFLICT: INVALID_STATE */
export const revokeByHand = (
  work: Work,
  player: PlayerKey,
  { badge, cause }: { badge: string; cause: Cause },
): Promise<PlayerBadge> =>
  changeBadge(work, player, {
    ref: badge,
    change: (turn, badgeKey) => revokeBadge(turn, { badgeKey, cause }),
  });
