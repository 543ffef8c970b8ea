import { isId } from "../../kernel/ids.ts";
import type { Read } from "../../kernel/read.ts";
import type { PlayerState } from "../../evaluation/player-state.ts";
import type { ProjectPlan } from "../../evaluation/project-plan.ts";
import type { Player } from "../../players/player.ts";
import { balances, dueLots, lots } from "../parts/balances.ts";
import type { PlayerPart } from "../parts/part.ts";
import { projectPlans } from "../plan.ts";
import { unknownPlayer } from "../../players/player-refs.ts";
import { stateOfPlayer } from "./show.ts";

/** A player with balances as read at one moment, and the definitions of that moment. */
export type PlayerRead = { player: Player; state: PlayerState; plan: ProjectPlan; now: Date };

/** Lots to read: the sums of those that are over (to show balances), or each. */
type Lots = "DUE" | "EACH";

/** A row of PLAYER_HOLDINGS: a player with balances and lots, or nulls. */
export type PlayerRow = Record<string, unknown> & {
  id: string | null;
  balances: Record<string, unknown> | null;
  lots: [key: string, value: unknown][] | null;
};
type Row = PlayerRow & { config_version: string | number };

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
  external_user_id, display_name, avatar_url, status, xp, level, timezone, locale, country, attributes,
  metadata, to_jsonb(tags) as tags, seq, ledger_seq, ledger_hash, lives, lives_anchor_at,
  lives_unlimited_until, zone_changed_at, first_seen_at, last_seen_at, merged_into, deleted_at, created_at, updated_at`;

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

const dateOf = (value: unknown): Date | null => (value === null ? null : new Date(value as string));

const playerOf = (projectId: string, row: PlayerRow): Player => ({
  projectId,
  id: row.id!,
  externalUserId: row["external_user_id"] as string,
  displayName: row["display_name"] as string | null,
  avatarUrl: row["avatar_url"] as string | null,
  status: row["status"] as Player["status"],
  xp: Number(row["xp"]),
  level: row["level"] as number,
  timezone: row["timezone"] as string | null,
  locale: row["locale"] as string | null,
  country: row["country"] as string | null,
  attributes: row["attributes"] as Player["attributes"],
  metadata: row["metadata"] as Player["metadata"],
  tags: row["tags"] as string[],
  seq: Number(row["seq"]),
  ledgerSeq: Number(row["ledger_seq"]),
  ledgerHash: row["ledger_hash"] as string | null,
  lives: row["lives"] as number | null,
  livesAnchorAt: dateOf(row["lives_anchor_at"]),
  livesUnlimitedUntil: dateOf(row["lives_unlimited_until"]),
  zoneChangedAt: dateOf(row["zone_changed_at"]),
  firstSeenAt: dateOf(row["first_seen_at"]),
  lastSeenAt: dateOf(row["last_seen_at"]),
  mergedInto: row["merged_into"] as string | null,
  deletedAt: dateOf(row["deleted_at"]),
  createdAt: new Date(row["created_at"] as string),
  updatedAt: new Date(row["updated_at"] as string),
});

export type PlayerQuery = { projectId: string; ref: string; now: Date; lots: Lots };

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
  if (Number(row.config_version) !== plan.configVersion) return undefined;
  const player = playerOf(projectId, row);
  return { player, state: stateOf(player, row, of === "DUE" ? dueLots(now) : lots), plan, now };
};

/** Returns the player of a row with PLAYER_HOLDINGS; undefined for one without a player. */
export const playerReadOf = (plan: ProjectPlan, row: PlayerRow, now: Date): PlayerRead | undefined => {
  if (row.id === null) return undefined;
  const player = playerOf(plan.projectId, row);
  return { player, state: stateOf(player, row, dueLots(now)), plan, now };
};

const stateOf = (player: Player, row: PlayerRow, lotsPart: PlayerPart): PlayerState => {
  const state = stateOfPlayer(player);
  for (const [key, value] of Object.entries(row.balances ?? {})) balances.read(state, key, value);
  for (const [key, value] of row.lots ?? []) lotsPart.read(state, key, value);
  return state;
};
