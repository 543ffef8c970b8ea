import { type RawBuilder, sql } from "kysely";
import { DomainError, invalid } from "../../kernel/errors.ts";
import type { Json } from "../../kernel/events/events.ts";
import type { Work } from "../../kernel/work.ts";
import { isPattern, typesOf } from "./catalogue.ts";

/** Number of events examined per call, however many of them match; the seqs of a feed have no gap. */
export const SEEN_AT_ONCE = 10_000;
/** Maximum bytes of events per page, or one event; a full page is followed by another. */
export const PAGE_BYTES = 1024 * 1024;
/** Interval at which the last read is recorded, in ms. */
const READ_NOTED_MS = 3_600_000;

export type FeedOwner = { tenantId: string; projectId: string };
export type FeedQuery = {
  limit: number;
  /**
   * Cursor of the previous page; LATEST begins after the newest event; without one it begins with the oldest
   * kept.
   */
  cursor?: string | undefined;
  types?: readonly string[] | undefined;
};
export type FeedPage = {
  /** The events as sent to webhooks. */
  data: Json[];
  /** Start of the next page; given also when there is nothing new. */
  nextCursor: string;
  hasMore: boolean;
};

const PREFIX = "e";
/** The cursor after the newest event of the feed. */
const LATEST = "latest";

const wrongCursor = (): DomainError =>
  invalid("cursor", "is not a cursor of this feed: use nextCursor of the previous page");

const seqOf = (cursor: string | undefined): number | undefined => {
  if (cursor === undefined) return undefined;
  const seq = Number(/^e(\d{1,15})$/.exec(cursor)?.[1] ?? Number.NaN);
  if (Number.isNaN(seq)) throw wrongCursor();
  return seq;
};

/**
 * Returns the events of a project in the order in which they were added to its feed, which is that of
 * commits: reading on from a cursor misses none. The first call activates the feed.
 * @throws VALIDATION_ERROR, GONE CURSOR_EXPIRED when events after the cursor are no longer kept
 */
export const readFeed = async (work: Work, owner: FeedOwner, query: FeedQuery): Promise<FeedPage> => {
  const { cursor, types } = query;
  checkTypes(types);
  const lastSeq = await recordRead(work, owner);
  if (cursor === LATEST) return { data: [], nextCursor: PREFIX + lastSeq, hasMore: false };
  const after = seqOf(cursor);
  const { rows, oldest } = await readEvents(work, owner, { ...query, after: after ?? 0 });
  if (after !== undefined) checkPlace(after, { oldest, lastSeq });
  // If nothing is kept, a new reader continues after it.
  const seen = oldest === null ? lastSeq : Math.min(lastSeq, oldest + SEEN_AT_ONCE - 1);
  const page = pageOf(rows, { ...query, seen, lastSeq });
  const bodies = await readBodies(work, owner, page.seqs);
  const data = bodies.map((body) => JSON.parse(body) as Json);
  return { data, nextCursor: PREFIX + page.last, hasMore: page.hasMore };
};

/** @throws VALIDATION_ERROR, GONE, by the seq of the oldest event that is kept after it */
const checkPlace = (after: number, at: { oldest: number | null; lastSeq: number }): void => {
  const { oldest, lastSeq } = at;
  // Reading on from ahead would miss all events until then: the cursor is of another project, or the database
  // was restored to an older state.
  if (after > lastSeq) throw wrongCursor();
  if (after < lastSeq && (oldest === null || oldest > after + 1))
    throw new DomainError("GONE", "Events after this cursor are no longer kept; start without one", {
      reason: "CURSOR_EXPIRED",
    });
};

/** The seqs of matching events, and of the last examined row. */
type Page = { seqs: number[]; last: number; hasMore: boolean };

/** @param seen seq of the last event that was examined, unless `rows` has one after it */
const pageOf = (
  rows: readonly Row[],
  { limit, seen, lastSeq }: FeedQuery & { seen: number; lastSeq: number },
): Page => {
  const seqs: number[] = [];
  let left = PAGE_BYTES;
  for (const { seq, bytes } of rows) {
    left -= bytes;
    if (seqs.length === limit || (left < 0 && seqs.length > 0))
      return { seqs, last: seqs.at(-1)!, hasMore: true };
    seqs.push(seq);
  }
  return { seqs, last: Math.max(seen, seqs.at(-1) ?? 0), hasMore: seen < lastSeq };
};

const checkTypes = (types: readonly string[] | undefined): void => {
  const unknown = types?.find((type) => !isPattern(type));
  if (unknown !== undefined)
    throw invalid("types", `unknown event type ${unknown}: see GET /webhooks/event-types`);
};

/** Records that the feed is read. @returns the seq of the last event */
const recordRead = async ({ db, now }: Work, { tenantId, projectId }: FeedOwner): Promise<number> => {
  const at = now.toISOString();
  const before = new Date(now.getTime() - READ_NOTED_MS).toISOString();
  const known = await sql<{ last_seq: number }>`
    select last_seq from webhook_feeds where project_id = ${projectId}::uuid
      and read_at > ${before}::timestamptz`.execute(db);
  if (known.rows[0]) return known.rows[0].last_seq;
  const noted = await sql<{ last_seq: number }>`
    insert into webhook_feeds (project_id, tenant_id, read_at)
    values (${projectId}::uuid, ${tenantId}::uuid, ${at}::timestamptz)
    on conflict (project_id) do update set read_at = excluded.read_at
    returning last_seq`.execute(db);
  return noted.rows[0]!.last_seq;
};

type Row = { seq: number; bytes: number };

/** Types have no characters that would need quotes. */
const textArray = (types: readonly string[]) => sql`${`{${types.join(",")}}`}::text[]`;

/** Condition on the events `e` that are read; those about erased persons are not. */
const isWanted = (types: FeedQuery["types"]): RawBuilder<unknown> => {
  if (types === undefined) return sql`e.body is not null`;
  const { names, prefixes, except } = typesOf(types);
  return sql`e.body is not null and (
    e.type = any(${textArray(names)})
    or exists (select from unnest(${textArray(prefixes)}) x where starts_with(e.type, x))
    ${except === undefined ? sql`` : sql`or e.type <> all(${textArray(except)})`})`;
};

/**
 * Reads one more of the wanted events than fit on a page, among the next SEEN_AT_ONCE events.
 * @returns also the seq of the oldest event that is kept after `after`
 */
const readEvents = async (
  { db }: Work,
  { projectId }: FeedOwner,
  { after, types, limit }: FeedQuery & { after: number },
): Promise<{ rows: Row[]; oldest: number | null }> => {
  const found = await sql<{ oldest: number; seq: Row["seq"] | null; bytes: number }>`
    with o as materialized (
      select seq from webhook_events where project_id = ${projectId}::uuid and seq > ${after}
      order by seq limit 1)
    select o.seq as oldest, f.seq, f.bytes from o left join lateral (
      select e.seq, octet_length(e.body) as bytes from webhook_events e
      where e.project_id = ${projectId}::uuid and e.seq >= o.seq and e.seq < o.seq + ${SEEN_AT_ONCE}
        and ${isWanted(types)}
      order by e.seq limit ${limit + 1}) f on true
    order by f.seq`.execute(db);
  const rows = found.rows.flatMap(({ seq, bytes }) => (seq === null ? [] : [{ seq, bytes }]));
  return { rows, oldest: found.rows[0]?.oldest ?? null };
};

/** Returns bodies in order; one that was removed meanwhile is missing. */
const readBodies = async (
  { db }: Work,
  { projectId }: FeedOwner,
  seqs: readonly number[],
): Promise<string[]> => {
  if (seqs.length === 0) return [];
  const { rows } = await sql<{ body: string }>`
    select body from webhook_events
    where project_id = ${projectId}::uuid and seq = any(${`{${seqs.join(",")}}`}::bigint[])
      and body is not null
    order by seq`.execute(db);
  return rows.map(({ body }) => body);
};
