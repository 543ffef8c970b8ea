import { sql } from "kysely";
import { conflict } from "../../kernel/errors.ts";
import { newId } from "../../kernel/ids.ts";
import { inPieces } from "../../kernel/pieces.ts";
import { lockRoom } from "../../kernel/room-lock.ts";
import type { Work } from "../../kernel/work.ts";
import type { RuleDocument } from "../../evaluation/language/document.ts";
import type { RuleStatus } from "../../evaluation/running/rule-status.ts";
import { ACTIVE_RULES_MAX } from "./publishing.ts";
import { RULES_MAX, RULES_WITH_ARCHIVED_MAX } from "../rules.ts";
import { planAllSchedules } from "../schedules.ts";

type Sync = { from: string; to: string; actor: string };
type Report = { count: number; skipped: { key: string; reason: string }[] };

/** A rule of the source that is not archived in both projects, without its documents. */
type Pair = {
  key: string;
  /** Of its documents. */
  bytes: number;
  sourceId: string;
  status: RuleStatus;
  isPublished: boolean;
  ownId: string | null;
  ownStatus: RuleStatus | null;
};

/** A rule of the target that is created or changed, and how. */
type Change = Pick<Pair, "bytes" | "sourceId"> & {
  ownId: string;
  isStatusNew: boolean;
  isDraftNew: boolean;
  isVersionNew: boolean;
};

/**
 * Copies the rules of one project to another, by key: drafts, and published versions as further versions.
 * Rules that only the target has stay. A rule that the source has never published keeps its running version.
 * Documents are compared and copied by the database. Must be called under the config locks of both.
 * @throws CONFLICT RULE_LIMIT
 */
export const syncRules = async (work: Work, sync: Sync): Promise<Report> => {
  await lockRoom(work, sync.to, "rules");
  const pairs = await readPairs(work, sync);
  const kept = pairs.filter(({ ownStatus }) => ownStatus === "ARCHIVED");
  const skipped = kept.map(({ key }) => ({ key, reason: "it is archived in the sandbox" }));
  const added = pairs.filter(({ ownId }) => ownId === null).map(newChange);
  await inPieces(added, (piece) => add(work, sync, piece));
  const both = pairs.filter(({ ownId, ownStatus }) => ownId !== null && ownStatus !== "ARCHIVED");
  const changed: Change[] = [];
  await inPieces(both, async (piece) => changed.push(...(await findChanges(work, sync, piece))));
  await inPieces(changed, (piece) => change(work, sync, piece));
  const touched = [...added, ...changed];
  const published = touched.filter(({ isVersionNew }) => isVersionNew);
  await inPieces(published, (piece) => publish(work, sync, piece));
  await inPieces(touched, (piece) => plan(work, sync.to, piece));
  await checkRoom(work, sync.to);
  return { count: touched.length, skipped };
};

const readPairs = async ({ db }: Work, { from, to }: Sync): Promise<Pair[]> => {
  const { rows } = await sql<Pair>`
    select s.key, s.draft_bytes + coalesce(v.bytes, 0) as bytes, s.id as "sourceId", s.status,
      v.rule_id is not null as "isPublished", o.id as "ownId", o.status as "ownStatus"
    from rules s
    left join rule_versions v on v.rule_id = s.id and v.version = s.published_version
    left join rules o on o.project_id = ${to} and o.key = s.key
    where s.project_id = ${from}
      and (s.status <> 'ARCHIVED' or (o.id is not null and o.status <> 'ARCHIVED'))
    order by s.id`.execute(db);
  return rows;
};

const newChange = ({ bytes, sourceId, isPublished }: Pair): Change => ({
  bytes,
  sourceId,
  ownId: newId(),
  isStatusNew: true,
  isDraftNew: true,
  isVersionNew: isPublished,
});

const rowsOf = (piece: readonly Change[]): string =>
  JSON.stringify(
    piece.map(({ sourceId, ownId, isStatusNew, isDraftNew, isVersionNew }) => {
      return { s: sourceId, o: ownId, st: isStatusNew, dr: isDraftNew, ve: isVersionNew };
    }),
  );

const recordset = (piece: readonly Change[]) => sql`
  json_to_recordset(${rowsOf(piece)}::json) as r(s uuid, o uuid, st boolean, dr boolean, ve boolean)`;

const add = ({ db, now }: Work, { from, to, actor }: Sync, piece: readonly Change[]): Promise<unknown> => {
  const at = sql`${now.toISOString()}::timestamptz`;
  return sql`
    insert into rules (id, project_id, key, name, status, pause_reason, draft, draft_version,
      published_version, created_by, created_at, updated_at)
    select r.o, ${to}::uuid, s.key, s.name, s.status, s.pause_reason, s.draft, 1,
      case when r.ve then 1 end, ${actor}, ${at}, ${at}
    from ${recordset(piece)} join rules s on s.project_id = ${from} and s.id = r.s`.execute(db);
};

/**
 * Compares rules of both projects. A rule that was published once can never be a DRAFT again, and of an
 * archived one only the status is copied.
 * @returns those that differ
 */
const findChanges = async ({ db }: Work, { from, to }: Sync, piece: readonly Pair[]): Promise<Change[]> => {
  const ids = JSON.stringify(piece.map(({ sourceId, ownId, bytes }) => ({ s: sourceId, o: ownId, bytes })));
  const { rows } = await sql<Change>`
    select * from (
      select r.bytes, s.id as "sourceId", o.id as "ownId",
        s.status <> 'DRAFT' and s.status <> o.status as "isStatusNew",
        s.status <> 'ARCHIVED' and (s.name <> o.name or s.draft <> o.draft) as "isDraftNew",
        s.status <> 'ARCHIVED' and v.rule_id is not null and v.digest is distinct from ov.digest
          as "isVersionNew"
      from json_to_recordset(${ids}::json) as r(s uuid, o uuid, bytes int)
      join rules s on s.project_id = ${from} and s.id = r.s
      join rules o on o.project_id = ${to} and o.id = r.o
      left join rule_versions v on v.rule_id = s.id and v.version = s.published_version
      left join rule_versions ov on ov.rule_id = o.id and ov.version = o.published_version) those
    where "isStatusNew" or "isDraftNew" or "isVersionNew" order by "sourceId"`.execute(db);
  return rows;
};

const change = ({ db, now }: Work, { from, to }: Sync, piece: readonly Change[]): Promise<unknown> =>
  sql`
    update rules o set
      status = case when r.st then s.status else o.status end,
      pause_reason = case when r.st then s.pause_reason else o.pause_reason end,
      name = case when r.dr then s.name else o.name end,
      draft = case when r.dr then s.draft else o.draft end,
      draft_version = o.draft_version + r.dr::int,
      published_version = case when r.ve then coalesce(o.published_version, 0) + 1
        else o.published_version end,
      updated_at = ${now.toISOString()}::timestamptz
    from ${recordset(piece)} join rules s on s.project_id = ${from} and s.id = r.s
    where o.project_id = ${to} and o.id = r.o`.execute(db);

/** Adds the source's published versions as those that the target's rules name by now. */
const publish = ({ db, now }: Work, { from, to, actor }: Sync, piece: readonly Change[]): Promise<unknown> =>
  sql`
    insert into rule_versions (rule_id, version, definition, change_note, published_by, published_at)
    select o.id, o.published_version, v.definition, 'Copied from the project', ${actor},
      ${now.toISOString()}::timestamptz
    from ${recordset(piece)}
    join rules s on s.project_id = ${from} and s.id = r.s
    join rules o on o.project_id = ${to} and o.id = r.o
    join rule_versions v on v.rule_id = s.id and v.version = s.published_version`.execute(db);

type Running = { id: string; triggers: RuleDocument["triggers"] | null };

const plan = async (work: Work, projectId: string, piece: readonly Change[]): Promise<void> => {
  const ids = `{${piece.map(({ ownId }) => ownId).join(",")}}`;
  const { rows } = await sql<Running>`
    select r.id, case when r.status in ('ACTIVE', 'SHADOW')
      and v.definition->'triggers' @> '[{"kind": "SCHEDULE"}]' then v.definition->'triggers' end as triggers
    from rules r left join rule_versions v on v.rule_id = r.id and v.version = r.published_version
    where r.project_id = ${projectId} and r.id = any(${ids}::uuid[])`.execute(work.db);
  const plans = rows.map(({ id, triggers }) => ({ id, running: triggers ? { triggers } : undefined }));
  await planAllSchedules(work, projectId, plans);
};

const checkRoom = async ({ db }: Work, projectId: string): Promise<void> => {
  const { rows } = await sql<Record<"all" | "kept" | "active", string | number>>`
    select count(*) as all, count(*) filter (where status <> 'ARCHIVED') as kept,
      count(*) filter (where status in ('ACTIVE', 'SHADOW')) as active
    from rules where project_id = ${projectId}`.execute(db);
  const { all, kept, active } = rows[0]!;
  if (
    Number(all) <= RULES_WITH_ARCHIVED_MAX &&
    Number(kept) <= RULES_MAX &&
    Number(active) <= ACTIVE_RULES_MAX
  )
    return;
  const limits = `${RULES_MAX} rules, ${ACTIVE_RULES_MAX} of them active`;
  throw conflict("RULE_LIMIT", `together with its own, the sandbox would have more than ${limits}`);
};
