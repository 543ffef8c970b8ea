import { type RawBuilder, sql } from "kysely";
import { z } from "zod";
import { Person } from "../../kernel/events/shapes.ts";
import { auditDefinition } from "../../accounts/audit/audit.ts";
import { definitionKind, getDefinition } from "../definitions/definitions.ts";
import { sharedDefinitions } from "../definitions/references.ts";
import {
  inputsOf,
  orderSegments,
  Segment,
  SEGMENTS_MAX,
  segmentShape,
  setMembership,
} from "../../evaluation/segments/membership.ts";
import { conflict, invalid } from "../../kernel/errors.ts";
import { isId } from "../../kernel/ids.ts";
import { type RowOf, shownRow } from "../../kernel/json.ts";
import { offsetOf, orderBy, type Ordered, type PageQuery, type SortOf } from "../../kernel/paging.ts";
import { countRows, type Total, TOTAL_EXACT_MAX, type Work } from "../../kernel/work.ts";
import { changePlayers } from "../../progression/change.ts";
import { getPlayer, isPlayer } from "../../progression/players/players.ts";

/** Number of members by segment key: counted up to TOTAL_EXACT_MAX. */
const countMembers = async (
  { db }: Work,
  projectId: string,
  keys: readonly string[],
): Promise<Map<string, number>> => {
  const counted = await sql<{ key: string; n: number }>`
    select x.key, c.n from json_array_elements_text(${JSON.stringify(keys)}::json) as x(key)
    cross join lateral (select count(*) as n from (
      select 1 from player_segments s where s.project_id = ${projectId} and s.segment_key = x.key
      limit ${TOTAL_EXACT_MAX}) m) c`.execute(db);
  return new Map(counted.rows.map(({ key, n }) => [key, n]));
};

const readSegments = async (work: Work, projectId: string): Promise<Segment[]> => {
  const definitions = sharedDefinitions(work, projectId);
  if (definitions) return definitions.all("segment").map(({ definition }) => definition as Segment);
  const found = await sql<{ definition: Segment }>`
    select definition from definitions
    where project_id = ${projectId} and kind = 'segment' and status = 'ACTIVE'`.execute(work.db);
  return found.rows.map(({ definition }) => definition);
};

const readBy = new WeakMap<Segment, readonly string[]>();

/** Returns the keys of the segments that a segment's conditions read. */
const segmentsReadBy = (segment: Segment): readonly string[] => {
  const known = readBy.get(segment) ?? inputsOf(segment.definition ?? { all: [] }).segmentKeys;
  readBy.set(segment, known);
  return known;
};

const check = async (
  work: Work,
  projectId: string,
  definition: Segment,
  before: Segment | undefined,
): Promise<void> => {
  if (before && before.kind !== definition.kind)
    throw invalid("kind", "cannot change: create another segment");
  if (!definition.definition) return;
  const known = await readSegments(work, projectId);
  const all = [...known.filter(({ key }) => key !== definition.key), definition];
  const order = orderSegments(all.map((one) => ({ key: one.key, segmentKeys: segmentsReadBy(one) })));
  if ("ring" in order)
    throw conflict("SEGMENT_CYCLE", `segments read one another: ${order.ring.join(" → ")}`);
};

export const segmentKind = definitionKind<Segment>({
  kind: "segment",
  example: {
    key: "veterans",
    name: "Veterans",
    kind: "DYNAMIC",
    definition: { all: [{ type: "player_property", field: "level", op: "gte", value: 10 }] },
  },
  plural: "segments",
  tag: "Segments",
  schema: Segment,
  shape: segmentShape,
  max: SEGMENTS_MAX,
  check,
  extra: {
    shape: { memberCount: z.int().describe(`Counted up to ${TOTAL_EXACT_MAX}`) },
    read: async (work, projectId, keys) => {
      const counts = await countMembers(work, projectId, keys);
      return new Map(keys.map((key) => [key, { memberCount: counts.get(key) ?? 0 }]));
    },
  },
});

/** How long it is kept that a player was in a segment, after leaving it. */
export const SPELLS_KEPT_MS = 400 * 86_400_000;

type Of = { projectId: string; key: string; at: Date };

/** @throws DomainError VALIDATION_ERROR */
const checkKnown = async ({ db, now }: Work, { projectId, at }: Of): Promise<void> => {
  if (at > now) throw invalid("at", "must not be in the future");
  const found = await sql<{ since: Date | null }>`
    select spells_since as since from projects where id = ${projectId}`.execute(db);
  const sinceMs = new Date(found.rows[0]?.since ?? 0).getTime();
  const fromMs = Math.max(sinceMs, now.getTime() - SPELLS_KEPT_MS);
  if (at.getTime() < fromMs)
    throw invalid("at", `memberships are known since ${new Date(fromMs).toISOString()}`);
};

/**
 * Returns the members of a segment at a past moment as rows like those of `player_segments`: who is in it
 * since then or earlier, and who was in it. Of players that were merged, the one that is left.
 * @throws DomainError VALIDATION_ERROR for a moment of which they are not known
 */
const membersAt = async (work: Work, of: Of): Promise<RawBuilder<unknown>> => {
  await checkKnown(work, of);
  const { projectId, key, at } = of;
  const moment = sql`${at.toISOString()}::timestamptz`;
  const isOf = sql`m.project_id = ${projectId} and m.segment_key = ${key} and m.entered_at <= ${moment}`;
  return sql`(
    select ${projectId}::uuid as project_id, ${key}::text as segment_key, player_id,
      min(entered_at) as entered_at
    from (
      select m.player_id, m.entered_at from player_segments m where ${isOf}
      union all
      select coalesce(p.merged_into, p.id), m.entered_at from segment_spells m
      join players p on p.project_id = m.project_id and p.id = m.player_id and p.status <> 'ERASED'
      where ${isOf} and m.left_at > ${moment}) m
    group by player_id)`;
};

/** Maximum number of players added or removed by one request. */
export const MEMBERS_CHANGED_MAX = 1_000;

export const Member = Person.extend({ enteredAt: z.iso.datetime() }).meta({ id: "SegmentMember" });
type Member = z.output<typeof Member>;

/** Orders of the list. */
export const MEMBER_ORDERS = { by: { playerId: sql`player_id` }, usual: "asc" } as const;

const NOW = sql`player_segments`;

type MembersQuery = PageQuery &
  Ordered<SortOf<typeof MEMBER_ORDERS>> & {
    playerId?: string | undefined;
    /** The members as of then; default: as they are. */
    at?: Date | undefined;
  };

/**
 * Lists a segment's members, by id; with `playerId` that player, if a member.
 * @throws DomainError NOT_FOUND for the segment, the player; VALIDATION_ERROR for a moment that is not known
 */
export const listMembers = async (
  work: Work,
  projectId: string,
  segmentRef: string,
  query: MembersQuery,
): Promise<Total & { members: Member[] }> => {
  const { key } = await getDefinition(work, projectId, segmentKind, segmentRef);
  const ofPlayer = await isPlayer(work, projectId, sql`player_id`, query.playerId);
  const those = query.at === undefined ? NOW : await membersAt(work, { projectId, key, at: query.at });
  const rows = sql`${those} s
    where project_id = ${projectId} and segment_key = ${key} and ${ofPlayer}`;
  const page = await sql<RowOf<Member>>`
    select p.id as "playerId", p.external_user_id as "externalUserId", p.display_name as "displayName",
      s.entered_at as "enteredAt"
    from (select player_id, entered_at from ${rows}
      order by ${orderBy(MEMBER_ORDERS, query, sql`player_id`)}
      limit ${query.limit} offset ${offsetOf(query)}) s
    join players p on p.project_id = ${projectId} and p.id = s.player_id
    order by ${orderBy({ by: { playerId: sql`p.id` }, usual: "asc" }, query, sql`p.id`)}`.execute(work.db);
  return { members: page.rows.map((row) => shownRow(row)), ...(await countRows(work, rows)) };
};

type MemberChange = {
  segmentRef: string;
  /** UUIDs, or `ext:` and the integrator's id. */
  players: readonly string[];
  isMember: boolean;
};
export const MembersChanged = z
  .object({
    changed: z.int(),
    unchanged: z.int().meta({ description: "Players who were in it, or out of it, before" }),
    unknown: z.array(z.string()).meta({ description: "Those of playerIds that are no players" }),
  })
  .meta({ id: "MembersChanged" });
type MembersChanged = z.output<typeof MembersChanged>;

/**
 * Adds players to a STATIC segment, or removes them, on the same path as events: rules and other segments are
 * triggered. Unknown players are returned by name and do not affect the others.
 * @throws DomainError NOT_FOUND for the segment; CONFLICT INVALID_STATE for one that is DYNAMIC or archived
 */
export const changeMembers = async (
  work: Work,
  projectId: string,
  { segmentRef, players, isMember }: MemberChange,
): Promise<MembersChanged> => {
  const definition = await getDefinition(work, projectId, segmentKind, segmentRef);
  const { kind } = definition.definition as unknown as Segment;
  if (kind === "DYNAMIC") throw conflict("INVALID_STATE", "its definition decides who is in the segment");
  if (definition.status === "ARCHIVED") throw conflict("INVALID_STATE", "the segment is archived");
  const ids = await idsOf(work, projectId, players);
  const changed = await moveAll(work, projectId, {
    playerIds: [...new Set(ids.values())],
    key: definition.key,
    isMember,
  });
  await auditDefinition(work, `segment.members_${isMember ? "added" : "removed"}`, definition);
  return {
    changed,
    unchanged: new Set(ids.values()).size - changed,
    unknown: [...new Set(players)].filter((ref) => !ids.has(ref)),
  };
};

const EXTERNAL = "ext:";

/** Resolves player names to ids; merged players resolve to the other one. */
const idsOf = async (
  { db }: Work,
  projectId: string,
  refs: readonly string[],
): Promise<Map<string, string>> => {
  const named = refs.map((ref) =>
    ref.startsWith(EXTERNAL)
      ? { r: ref, u: ref.slice(EXTERNAL.length) }
      : { r: ref, i: isId(ref) ? ref : null },
  );
  const found = await sql<{ r: string; id: string }>`
    select x.r, coalesce(p.merged_into, p.id) as id
    from json_to_recordset(${JSON.stringify(named)}::json) as x(r text, u text, i uuid)
    join players p on p.project_id = ${projectId} and p.status <> 'ERASED'
      and (p.external_user_id = x.u or p.id = x.i)`.execute(db);
  return new Map(found.rows.map(({ r, id }) => [r, id]));
};

type Move = { playerIds: readonly string[]; key: string; isMember: boolean };

/** Has known players enter a segment, or leave it. Returns how many did. */
export const moveAll = async (work: Work, projectId: string, move: Move): Promise<number> => {
  const moved = await changePlayers(work, projectId, move.playerIds, (turn) => {
    const wasMember = turn.player.segments.has(move.key);
    setMembership(turn, move.key, move.isMember);
    return wasMember !== move.isMember;
  });
  return moved.filter(({ value }) => value).length;
};

/** A segment that a player is in. */
export const PlayerSegment = z
  .object({
    segmentKey: z.string(),
    segmentId: z.uuid(),
    name: z.string(),
    kind: z.enum(["STATIC", "DYNAMIC"]),
    enteredAt: z.iso.datetime(),
  })
  .meta({ id: "PlayerSegment" });
type PlayerSegment = z.output<typeof PlayerSegment>;

/** Lists a player's segments by key, without archived ones. @throws DomainError NOT_FOUND */
export const listPlayerSegments = async (
  work: Work,
  projectId: string,
  playerRef: string,
): Promise<PlayerSegment[]> => {
  const player = await getPlayer(work, projectId, playerRef);
  const found = await sql<RowOf<PlayerSegment>>`
    select d.key as "segmentKey", d.id as "segmentId", d.name, d.definition->>'kind' as kind,
      s.entered_at as "enteredAt"
    from player_segments s
    join definitions d on d.project_id = s.project_id and d.kind = 'segment' and d.key = s.segment_key
      and d.status = 'ACTIVE'
    where s.project_id = ${projectId} and s.player_id = ${player.id} order by d.key`.execute(work.db);
  return found.rows.map((row) => shownRow(row));
};
