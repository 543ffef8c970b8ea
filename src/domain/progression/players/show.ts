import { z } from "zod";
import { balanceNow } from "../../evaluation/currencies/adjust.ts";
import { showLives, ShownLives } from "../../evaluation/lives/lives.ts";
import type { PlayerState } from "../../evaluation/player-state.ts";
import type { ProjectPlan } from "../../evaluation/project-plan.ts";
import { LevelProgress, levelProgress } from "../../evaluation/xp/levels.ts";
import { isId } from "../../kernel/ids.ts";
import type { Read } from "../../kernel/read.ts";
import { together } from "../../kernel/together.ts";
import type { Work } from "../../kernel/work.ts";
import { unknownPlayer } from "../../players/player-refs.ts";
import { Player } from "../../players/player.ts";
import type { PlayerKey } from "../change.ts";
import { loadStates } from "../load-states.ts";
import { stateOfPlayer } from "../load.ts";
import { knownPlan, projectPlans, readPlan } from "../plan.ts";
import { balances, dueLots, lots, type PlayerPart } from "../parts/part.ts";

/** A player in the API. */
export const ShownPlayer = z
  .object({
    id: z.uuid(),
    externalUserId: z.string(),
    displayName: z.string().nullable(),
    xp: z.int(),
    level: z.int(),
    levelProgress: LevelProgress,
    currencies: z.record(z.string(), z.int()).meta({ description: "Balances by key of the currency" }),
    lives: ShownLives.nullable().meta({ description: "Null in a project without lives" }),
    status: z.enum(["ACTIVE", "SUSPENDED", "BANNED", "MERGED", "ERASED"]),
    avatarUrl: z.string().nullable(),
    timezone: z.string().nullable(),
    locale: z.string().nullable(),
    country: z.string().nullable(),
    attributes: z.record(z.string(), z.unknown()),
    metadata: z.record(z.string(), z.unknown()),
    tags: z.array(z.string()),
    seq: z.int().meta({ description: "Sequence number of the player's live stream" }),
    firstSeenAt: z.iso.datetime(),
    lastSeenAt: z.iso.datetime().nullable(),
    createdAt: z.iso.datetime(),
    updatedAt: z.iso.datetime(),
  })
  .meta({ id: "Player" });
export type ShownPlayer = z.output<typeof ShownPlayer>;

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

/** A player with balances as read at one moment, and the definitions of that moment. */
type PlayerRead = { player: Player; state: PlayerState; plan: ProjectPlan; now: Date };

/** Lots to read: the sums of those that are over (to show balances), or each. */
type Lots = "DUE" | "EACH";

type Holdings = { balances: Record<string, unknown> | null; lots: [key: string, value: unknown][] | null };
/** A row of PLAYER_COLUMNS and PLAYER_HOLDINGS: a player with balances and lots, or nulls. */
export type PlayerRow = (Player | { id: null }) & Holdings;
type Row = PlayerRow & { config_version: number };

/** Rows of one player, by primary key: the limits keep the planner from reading more. */
const BALANCES = `
  select jsonb_object_agg(b.currency_key, jsonb_build_array(b.balance, b.held, b.earned, b.spent))
  from (
    select currency_key, balance, held, earned, spent from player_balances
    where project_id = $1::uuid and player_id = p.id limit 1000) b`;

const LOTS: Readonly<Record<Lots, string>> = {
  DUE: `
  select jsonb_agg(jsonb_build_array(l.currency_key, l.due))
  from (
    select currency_key, sum(remaining) as due from currency_lots
    where project_id = $1::uuid and player_id = p.id and expires_at <= $3::timestamptz
    group by currency_key) l`,
  EACH: `
  select jsonb_agg(jsonb_build_array(l.currency_key,
    jsonb_build_array(l.id, l.remaining, floor(extract(epoch from l.expires_at) * 1000)))
    order by l.expires_at, l.id)
  from (
    select id, currency_key, remaining, expires_at from currency_lots
    where project_id = $1::uuid and player_id = p.id and $3::timestamptz is not null
    order by expires_at, id) l`,
};

/** The columns of a player beside the id. */
export const PLAYER_COLUMNS = `
  project_id as "projectId", external_user_id as "externalUserId", display_name as "displayName",
  avatar_url as "avatarUrl", status, xp, level, timezone, locale, country, attributes, metadata,
  to_jsonb(tags) as tags, seq, ledger_seq as "ledgerSeq", ledger_hash as "ledgerHash", lives,
  lives_anchor_at as "livesAnchorAt", lives_unlimited_until as "livesUnlimitedUntil",
  zone_changed_at as "zoneChangedAt", first_seen_at as "firstSeenAt", last_seen_at as "lastSeenAt",
  merged_into as "mergedInto", deleted_at as "deletedAt", created_at as "createdAt", updated_at as "updatedAt"`;

/** What a player `p` of the project $1 has at the time $3, for `playerReadOf`. */
export const PLAYER_HOLDINGS = `(${BALANCES}) as balances, (${LOTS.DUE}) as lots`;

/** A merged player stands for the other. Each way of naming a player is a text of its own, for its index. */
const textFor = (named: string, of: Lots): string => `
  select j.config_version, p.*, (${BALANCES}) as balances, (${LOTS[of]}) as lots
  from projects j
  left join lateral (
    select o.id, x.*
    from (
      select coalesce(q.merged_into, q.id) as id from players q
      where q.project_id = $1::uuid and ${named} limit 1) o
    join lateral (
      select ${PLAYER_COLUMNS}
      from players where project_id = $1::uuid and id = o.id limit 1) x on true) p on true
  where j.id = $1::uuid`;

const TEXTS = {
  id: { DUE: textFor("q.id = $2::uuid", "DUE"), EACH: textFor("q.id = $2::uuid", "EACH") },
  externalId: {
    DUE: textFor("q.external_user_id = $2::text", "DUE"),
    EACH: textFor("q.external_user_id = $2::text", "EACH"),
  },
};

type PlayerQuery = { projectId: string; ref: string; now: Date; lots: Lots };

/**
 * Reads a player and their balances with one statement, and the plan of the definitions of the same moment.
 * @returns undefined where this process does not have that plan: `readPlan` in a transaction makes it
 * @throws DomainError NOT_FOUND
 */
export const readPlayer = async (
  read: Read,
  { projectId, ref, now, lots: of }: PlayerQuery,
): Promise<PlayerRead | undefined> => {
  const isExternal = ref.startsWith("ext:");
  if (!isExternal && !isId(ref)) throw unknownPlayer(ref);
  const plan = projectPlans.get(projectId);
  if (!plan) return undefined;
  const text = TEXTS[isExternal ? "externalId" : "id"][of];
  const values = [projectId, isExternal ? ref.slice(4) : ref, now.toISOString()];
  const [row] = await read<Row>({ text, values });
  if (!row || row.id === null) throw unknownPlayer(ref);
  if (row.config_version !== plan.configVersion) return undefined;
  return { player: row, state: stateWith(row, of === "DUE" ? dueLots(now) : lots), plan, now };
};

/** Returns the player of a row with PLAYER_HOLDINGS; undefined for one without a player. */
export const playerReadOf = (plan: ProjectPlan, row: PlayerRow, now: Date): PlayerRead | undefined => {
  if (row.id === null) return undefined;
  return { player: row, state: stateWith(row, dueLots(now)), plan, now };
};

const stateWith = (row: Player & Holdings, lotsPart: PlayerPart): PlayerState => {
  const state = stateOfPlayer(row);
  for (const [key, value] of Object.entries(row.balances ?? {})) balances.read(state, key, value);
  for (const [key, value] of row.lots ?? []) lotsPart.read(state, key, value);
  return state;
};

/** Reads players as they are now in the transaction, detached from its unit of work, and converts them. */
const changedAs = <T extends { id: string }>(
  convert: (work: Work, projectId: string, players: readonly Player[]) => Promise<readonly T[]>,
) =>
  together({
    phase: "SHOW",
    isWrite: false,
    run: async (work, keys: readonly PlayerKey[]) => {
      const { projectId } = keys[0]!;
      const where = { projectId, id: { $in: [...new Set(keys.map(({ id }) => id))] } };
      const players = await work.em.find(Player, where, { disableIdentityMap: true });
      const byId = new Map((await convert(work, projectId, players)).map((one) => [one.id, one]));
      return keys.map(({ id }) => ({ value: byId.get(id)! }));
    },
  });

/** Returns a player after a change in this transaction, as the API shows players. */
export const showChanged = changedAs(showPlayers);

/** Returns a player after a change in this transaction. */
export const readChanged = changedAs(async (_work, _projectId, players) => players);
