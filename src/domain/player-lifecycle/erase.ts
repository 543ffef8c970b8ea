import { sql } from "kysely";
import { z } from "zod";
import { audit, auditDefinition } from "../accounts/audit/audit.ts";
import { eraseWebhookEvents } from "../delivery/webhooks/personal.ts";
import { ADMINS, tenantOf } from "../kernel/caller.ts";
import type { Json } from "../kernel/events/events.ts";
import { idFloor, partitionOf, timeOfId } from "../kernel/ids.ts";
import { isJsonObject } from "../kernel/json.ts";
import { holdEvents, projectTime, type Work } from "../kernel/work.ts";
import {
  type JobInProgress,
  jobKind,
  type ProjectJob,
  queueJob,
  type Step,
} from "../long-work/project-jobs.ts";
import {
  add,
  type Counts,
  erasedName,
  eraseEvents,
  eraseLedger,
  eraseOutbox,
  eraseOwnRows,
  eraseQueued,
  eventsUntilNow,
  PERSONAL_TABLES,
} from "./erase-rows.ts";
import type { PersonalTable } from "./personal-table.ts";
import { findPerson, type Person, uuids } from "../players/player-refs.ts";
import type { Player } from "../players/player.ts";
import { openOneChange } from "../progression/group-change.ts";
import { lockOne } from "../progression/players/players.ts";
import { eraseInboxMessages, eraseMentions } from "../social/chat/mentions.ts";
import { eraseChat } from "../social/chat/personal.ts";
import { leaveLobbies } from "../social/lobbies/leave-all.ts";

/**
 * Deletes a project's exports of analytics, and the results of its reports: they are compressed, and nobody
 * can tell which of them name the person. To be called when nothing else does any more, so that those made
 * meanwhile go too.
 */
const eraseExports = async ({ db }: Work, { projectId }: Person, rows: Counts): Promise<void> => {
  // Of runs that are not over too: who writes a result holds its run.
  const cleared = await sql`
    update analytics_report_runs set result = null
    where project_id = ${projectId}::uuid and (result is not null or finished_at is null)
    returning 1`.execute(db);
  add(rows, "analytics_report_runs", cleared.rows.length);
  // In this order: whoever writes pieces holds the export.
  for (const table of ["analytics_exports", "analytics_export_pieces"]) {
    const gone = await sql`
      delete from ${sql.table(table)} where project_id = ${projectId}::uuid returning 1`.execute(db);
    add(rows, table, gone.rows.length);
  }
};

/** Number of rows examined per step. */
const SHARED_AT_ONCE = 2_000;
/** Maximum difference between the clock of an id and that of its transaction, in ms. */
const CLOCKS_MS = 60_000;

type Row = { id: string; type: string | null; data: Json };

type PersonNames = { ids: ReadonlySet<string>; name: string };

/** Replaces a person's named record: their places and teams stay, anonymously. */
const nobody = ({ stats: _stats, ...named }: Json, name: string): Json => ({
  ...named,
  ...("externalUserId" in named ? { externalUserId: name } : {}),
  ...("displayName" in named ? { displayName: null } : {}),
  ...("data" in named ? { data: {} } : {}),
});

/** Returns the value without the names and data of a person, wherever it contains them. */
const withoutPerson = (value: unknown, who: PersonNames): unknown => {
  if (Array.isArray(value)) return value.map((one) => withoutPerson(one, who));
  if (!isJsonObject(value)) return value;
  const { playerId } = value;
  const isNamed = typeof playerId === "string" && who.ids.has(playerId);
  const kept = isNamed ? nobody(value, who.name) : value;
  return Object.fromEntries(Object.entries(kept).map(([key, one]) => [key, withoutPerson(one, who)]));
};

/** Removes a lobby's name and metadata, which its host has written and which may describe the person. */
const withoutTexts = (data: Json): Json => ({
  ...data,
  ...("metadata" in data ? { metadata: {} } : {}),
  ...("name" in data && "mode" in data ? { name: data["mode"] } : {}),
});

type Occurred = { name: string; data: Json };

const erasedOf = (type: string, data: Json, who: PersonNames): Json => {
  const changed = withoutPerson(data, who) as Json;
  if (!type.startsWith("lobby.")) return changed;
  const occurrences = changed["occurrences"] as Occurred[] | undefined;
  if (!occurrences) return withoutTexts(changed);
  return { ...changed, occurrences: occurrences.map((one) => ({ ...one, data: withoutTexts(one.data) })) };
};

/** Lines that may name a person begin with the id of the oldest of the person's players. */
const firstOf = ({ ids }: Person): string => idFloor(Math.min(...ids.map(timeOfId)) - CLOCKS_MS);

/**
 * Reads rows after `after` that belong to no player: those that name the person, or are of a lobby whose last
 * host was the person, with their content.
 */
const readPage = async ({ db }: Work, { projectId, ids }: Person, after: string): Promise<Row[]> => {
  const found = await sql<Row>`
    with page as materialized (
      select id, type, data from outbox
      where project_id = ${projectId} and player_id is null and type <> 'leaderboard.entries_changed'
        and id > ${after}::uuid
      order by id limit ${SHARED_AT_ONCE})
    select p.id, case when named.it then p.type end as type, case when named.it then p.data end as data
    from page p cross join lateral (
      select exists (
          select 1 from unnest(${uuids(ids)}) as m(id) where position(m.id::text in p.data::text) > 0)
        or exists (
          select 1 from lobbies l where l.project_id = ${projectId}
            and l.id = case when p.type like 'lobby.%' then (p.data->>'lobbyId')::uuid end
            and l.host_player_id = any(${uuids(ids)})) as it) named
    order by p.id`.execute(db);
  return found.rows;
};

/**
 * Removes a person from a page of events about several players, such as a lobby's game or the first places of
 * a board. The rows stay, with what they say of others.
 * @returns where the next page begins
 */
const eraseShared = async (
  work: Work,
  person: Person,
  { after, name }: { after: string | undefined; name: string },
): Promise<{ count: number; after: string | undefined }> => {
  const page = await readPage(work, person, after ?? firstOf(person));
  const who: PersonNames = { ids: new Set(person.ids), name };
  const changed = page.flatMap(({ id, type, data }) =>
    type === null ? [] : [{ i: id, d: erasedOf(type, data, who) }],
  );
  if (changed.length > 0)
    await sql`
      update outbox o set data = x.d
      from json_to_recordset(${JSON.stringify(changed)}::json) as x(i uuid, d jsonb)
      where o.project_id = ${person.projectId} and o.id = x.i`.execute(work.db);
  return { count: changed.length, after: page.length === SHARED_AT_ONCE ? page.at(-1)!.id : undefined };
};

/**
 * Maximum number of rows of one table in an export; further rows are counted and can be read by the lists of
 * the API.
 */
export const EXPORT_ROWS_MAX = 20_000;
/** Maximum bytes of all rows of an export. */
export const EXPORT_BYTES_MAX = 16 * 1024 * 1024;

/** Copies all stored data of a player into the job's result. */
export const playerExport = jobKind({
  kind: "PLAYER_EXPORT",
  access: { scope: "players:write", roles: ADMINS },
  params: z.object({ playerId: z.uuid() }),
  step: async (work, { projectId, params: { playerId } }) => ({
    resultText: await readBundle(work, await findPerson(work, { projectId, playerId })),
  }),
});

/** Starts an export. @throws DomainError CONFLICT JOB_LIMIT */
export const startExport = async (
  work: Work,
  { projectId, id: playerId }: Player,
  createdBy: string,
): Promise<ProjectJob> => {
  const job = await queueJob(work, projectId, { kind: playerExport, params: { playerId }, createdBy });
  await auditDefinition(work, "player.export_started", { projectId, id: playerId });
  return job;
};

/**
 * Reads every row of the person, by table, without moderators' internal data. `incomplete` names the tables
 * that have more rows, with their total numbers. Rows stay text: parsed, they may take twenty times as much
 * memory.
 */
const readBundle = async (work: Work, person: Person): Promise<string> => {
  const tables: string[] = [];
  const incomplete: Record<string, number> = {};
  let room = EXPORT_BYTES_MAX;
  for (const one of PERSONAL_TABLES) {
    if (one.isNotExported) continue;
    const found = await readRows(work, person, { one, room });
    room -= found.bytes;
    tables.push(`${JSON.stringify(one.table)}:[${found.rows.join()}]`);
    if (found.isCut) incomplete[one.table] = await countPersonal(work, person, one);
  }
  const { playerId, names } = person;
  const head = { playerId, externalUserIds: names, exportedAt: work.now.toISOString(), incomplete };
  return `${JSON.stringify(head).slice(0, -1)},"tables":{${tables.join()}}}`;
};

type Read = { one: PersonalTable; room: number };
/** `rows`: each as JSON text. */
type Rows = { rows: string[]; bytes: number; isCut: boolean };

/** Reads rows up to `room` bytes, and whether there are more. */
const readRows = async ({ db }: Work, person: Person, { one, room }: Read): Promise<Rows> => {
  const found = await sql<{ r: string; upto: number; n: number }>`
    with first as (
      select (${one.exported ?? sql`to_jsonb(t)`} - 'project_id')::text as r,
        row_number() over (order by ${sql.raw(one.orderBy)}) as n
      from ${sql.table(one.table)} t where ${one.isOf(person)}
      order by n limit ${EXPORT_ROWS_MAX + 1}),
    summed as (select r, n, sum(octet_length(r)) over (order by n) as upto from first)
    select case when upto <= ${room} and n <= ${EXPORT_ROWS_MAX} then r end as r, n, upto from summed
    where n = 1 or (upto - octet_length(r) <= ${room} and n <= ${EXPORT_ROWS_MAX + 1})
    order by n`.execute(db);
  const fitting = found.rows.filter(({ r }) => r !== null);
  return {
    rows: fitting.map(({ r }) => r),
    bytes: fitting.at(-1)?.upto ?? 0,
    isCut: fitting.length < found.rows.length,
  };
};

/** Returns the number of the person's rows in a table. */
const countPersonal = async ({ db }: Work, person: Person, one: PersonalTable): Promise<number> => {
  const counted = await sql<{ n: number }>`
    select count(*) as n from ${sql.table(one.table)} t where ${one.isOf(person)}`.execute(db);
  return counted.rows[0]!.n;
};

const Params = z.object({ playerId: z.uuid(), isDryRun: z.boolean(), requestedAt: z.iso.datetime() });
type Params = z.output<typeof Params>;

/** The remaining work, and the person: the names are erased everywhere else. */
const State = z.object({
  ids: z.array(z.string()),
  names: z.array(z.string()),
  /** The events at the start; others belong to another player who has the name by now. */
  events: z.object({ upTo: z.string(), also: z.array(z.string()) }),
  phase: z.enum(["EVENTS", "CHAT", "MENTIONS", "LEDGER", "OUTBOX", "SHARED", "WEBHOOKS", "EXPORTS"]),
  /** Where the phase continues. */
  after: z.array(z.union([z.string(), z.number()])),
  rows: z.record(z.string(), z.number()),
  erasedAt: z.string(),
});
type State = z.output<typeof State>;

/**
 * Erases everything that identifies a person from the database. The first step, in one transaction, ends the
 * player: status ERASED, names and profile removed, waiting events detached. The following steps go through
 * events, chat, ledger, stream and events about several players. The ledger's amounts, keys and hashes stay,
 * and so do the seqs of the stream's lines.
 */
export const playerErase = jobKind({
  kind: "PLAYER_ERASE",
  access: { scope: "players:write", roles: ADMINS },
  params: Params,
  step: async (work, job): Promise<Step> => {
    if (job.params.isDryRun) return { result: await countRows(work, job) };
    const known = State.safeParse(job.state);
    if (known.success) return continueErasure(work, job, known.data);
    return begin(work, job);
  },
});

type Erasure = { isDryRun: boolean; reason: string; createdBy: string };

/** Starts an erasure. @throws DomainError CONFLICT JOB_LIMIT */
export const startErase = async (
  work: Work,
  { projectId, id: playerId }: Player,
  { isDryRun, reason, createdBy }: Erasure,
): Promise<ProjectJob> => {
  const params = { playerId, isDryRun, requestedAt: work.now.toISOString() };
  const job = await queueJob(work, projectId, { kind: playerErase, params, createdBy });
  await audit(work, {
    action: isDryRun ? "player.erasure_counted" : "player.erasure_started",
    target: { type: "player", id: playerId },
    tenantId: tenantOf(work.by!.caller),
    data: { projectId, reason },
  });
  return job;
};

const countRows = async (work: Work, { projectId, params }: JobInProgress<Params>): Promise<Json> => {
  const person = await findPerson(work, { projectId, playerId: params.playerId });
  const rows: Record<string, number> = {};
  for (const one of PERSONAL_TABLES) {
    const count = one.onErase === "NOTHING" ? 0 : await countPersonal(work, person, one);
    if (count > 0) rows[one.table] = count;
  }
  return { dryRun: true, playerId: params.playerId, rows };
};

/**
 * Names are read again under the player's lock: a merge in between may have added some with running events.
 */
const begin = async (work: Work, job: JobInProgress<Params>): Promise<Step> => {
  const { projectId, params } = job;
  const before = await findPerson(work, { projectId, playerId: params.playerId });
  await holdEvents(
    work,
    projectId,
    before.names.map((name) => partitionOf(projectId, name)),
  );
  const several = await openOneChange(work, projectId, () => lockOne(work, projectId, params.playerId));
  const { player } = several;
  const person = await findPerson(work, { projectId, playerId: player.id });
  if (player.status === "ERASED") return resume(work, job, person);
  if (person.names.some((name) => !before.names.includes(name)))
    throw new Error("another player was merged into this one meanwhile");
  const erasedAt = projectTime(work, several.plan).toISOString();
  const turn = several.open(player);
  Object.assign(player, { status: "ERASED", attributes: {}, tags: [] });
  player.dirty.profile = true;
  turn.emit("player.erased", { playerId: player.id, requestedAt: params.requestedAt, erasedAt });
  await several.save();
  await leaveLobbies(work, person, "LEFT");
  // Before what waits is detached: what comes in between is among that.
  const { upTo, also } = await eventsUntilNow(work, person);
  const rows: Counts = {};
  await eraseQueued(work, person, rows);
  await eraseOwnRows(work, person, rows);
  const { ids, names } = person;
  const next: State = {
    ids: [...ids],
    names: [...names],
    events: { upTo, also: [...also] },
    phase: "EVENTS",
    after: [],
    rows,
    erasedAt,
  };
  return { state: next, progress: 10 };
};

/** Continues the work of an earlier job that was cancelled or has failed. */
const resume = async (
  work: Work,
  { id, projectId, params }: JobInProgress<Params>,
  person: Person,
): Promise<Step> => {
  const found = await sql<{ state: Json }>`
    select state from project_jobs
    where project_id = ${projectId} and kind = ${playerErase.kind} and id <> ${id}
      and params->>'playerId' = ${params.playerId} and state <> '{}'
    order by id desc limit 1`.execute(work.db);
  const left = State.safeParse(found.rows[0]?.state);
  if (left.success) return { state: left.data, progress: 10 };
  const { playerId } = person;
  return { result: { dryRun: false, playerId, erasedAt: null, rows: {} } };
};

type Page = { state: State; rows: Counts };
type After = State["after"];

/** Processes a page of a phase. @returns where its next page begins; undefined at its end */
type Phase = (work: Work, person: Person, page: Page) => Promise<After | undefined>;

/** In this order. */
const PHASES: Readonly<Record<State["phase"], Phase>> = {
  EVENTS: async (work, person, { state, rows }) => {
    const isMore = await eraseEvents(work, person, { ...state.events, rows });
    return isMore ? [] : undefined;
  },
  CHAT: async (work, person, { rows }) => {
    const { count, isMore } = await eraseChat(work, person);
    add(rows, "chat_messages", count);
    const areMoreLetters = await eraseInboxMessages(work, person);
    return isMore || areMoreLetters ? [] : undefined;
  },
  MENTIONS: async (work, person, { state, rows }) => {
    const { count, after } = await eraseMentions(work, person, state.after);
    add(rows, "chat_messages", count);
    return after;
  },
  LEDGER: (work, person, { state, rows }) => eraseLedger(work, person, { after: state.after, rows }),
  OUTBOX: (work, person, { state, rows }) => eraseOutbox(work, person, { after: state.after, rows }),
  SHARED: async (work, person, { state, rows }) => {
    const name = erasedName(person.playerId);
    const { count, after } = await eraseShared(work, person, { after: state.after[0]?.toString(), name });
    add(rows, "outbox", count);
    return after === undefined ? undefined : [after];
  },
  // Last: lines that the earlier phases did not reach in time have been relayed by now, and are in the feed.
  WEBHOOKS: async (work, person, { state, rows }) => {
    const from = Number(state.after[0] ?? 0);
    const { erasedAt } = state;
    const { events, deliveries, after } = await eraseWebhookEvents(work, { ...person, erasedAt }, from);
    add(rows, "webhook_events", events);
    add(rows, "webhook_deliveries", deliveries);
    return after === undefined ? undefined : [after];
  },
  EXPORTS: async (work, person, { rows }) => {
    await eraseExports(work, person, rows);
    return undefined;
  },
};
const ORDER = Object.keys(PHASES) as State["phase"][];

const continueErasure = async (
  work: Work,
  { projectId, params }: JobInProgress<Params>,
  state: State,
): Promise<Step> => {
  const { playerId } = params;
  const { ids, names, rows, phase, erasedAt } = state;
  const person: Person = { projectId, playerId, ids, names };
  const after = await PHASES[phase](work, person, { state, rows });
  const done = ORDER.indexOf(phase) + 1;
  const next = after ? phase : ORDER[done];
  if (next) {
    const progress = Math.floor((100 * done) / (ORDER.length + 1));
    return { state: { ...state, rows, phase: next, after: after ?? [] }, progress };
  }
  await forgetStates(work, person);
  return { result: { dryRun: false, playerId, erasedAt, rows } };
};

/** Clears the states of jobs about the player; this job's own is cleared when it ends. */
const forgetStates = async ({ db }: Work, { projectId, playerId }: Person): Promise<void> => {
  await sql`
    update project_jobs set state = '{}'
    where project_id = ${projectId} and kind = ${playerErase.kind} and params->>'playerId' = ${playerId}
      and status not in ('QUEUED', 'RUNNING')`.execute(db);
};
