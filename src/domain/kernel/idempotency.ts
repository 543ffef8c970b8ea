import { createHash } from "node:crypto";
import { sql } from "kysely";
import { conflict, DomainError } from "./errors.ts";
import { isJsonObject } from "./json.ts";
import type { SecretBox } from "./secret-box.ts";
import { kept, unansweredKept } from "./statements.ts";
import { Apart, type Outcome, together } from "./together.ts";
import type { Work } from "./work.ts";

/** How long a stored response is returned for its key. */
export const IDEMPOTENCY_HOURS = 24;
export const IDEMPOTENCY_KEY_MAX = 255;
/**
 * How long a response that nobody can resume may be provisional; after that, the process that should complete
 * it is considered dead.
 */
const PROVISIONAL_MS = 60_000;

/** An idempotency key and the request that it identifies. */
export type KeyedRequest = {
  /** Owner of the key: `project:<id>:<hash of scopes>`, `user:<id>` or `admin:<id>`. */
  scope: string;
  key: string;
  tenantId: string | null;
  /** SHA-256 over path, query, project, the user's role and body, to detect a reused key. */
  fingerprint: string;
};

export type StoredResponse = {
  status: number;
  body: unknown;
  /** To be completed: not returned to anybody until then. Stored with a status below 0. */
  isProvisional?: boolean;
  /** With what a repetition completes a provisional response, as JSON. */
  left?: unknown;
};

/** The name under which `left` is stored in a provisional body. */
const LEFT = "$left";

const withLeft = ({ body, left }: StoredResponse): unknown =>
  left === undefined ? body : { ...(body as object), [LEFT]: left };

const contextOf = ({ scope, key }: KeyedRequest): string => `idempotency_keys:${scope}:${key}`;

/** First 64 bits of a hash: two keys share a lock once in 2^64. */
const lockOf = (request: KeyedRequest): string =>
  createHash("sha256").update(contextOf(request)).digest().readBigInt64BE().toString();

const inProgress = (): DomainError =>
  new DomainError("CONFLICT", "A request with this X-Idempotency-Key is still in progress; try again", {
    reason: "IDEMPOTENCY_IN_PROGRESS",
    retryAfterSeconds: 1,
  });

/** `secretBox` opens and seals the response. */
type Keyed = { secretBox: SecretBox; request: KeyedRequest };

type Found = Outcome<StoredResponse | undefined>;

/**
 * Locks the key until the end of the transaction, and returns the response stored under it. The lock is the
 * database's, so a process that dies leaves nothing behind. Two statements for all requests of a transaction.
 *
 * @throws CONFLICT IDEMPOTENCY_IN_PROGRESS, UNPROCESSABLE_ENTITY IDEMPOTENCY_KEY_REUSED
 */
export const claimKey = together({
  phase: "KEYS",
  isWrite: false,
  run: async (work, keyed: readonly Keyed[]) => {
    // Separate: a statement that also read the rows would see them as of before the locks.
    const taken = await lockKeys(work, keyed);
    const stored = await findAll(work, keyed);
    return stored.map((found, i): Found => {
      if (!("value" in found) || found.value !== undefined || taken[i] === "MINE") return found;
      // A request that only replays the response holds the key for a moment, too.
      return { error: taken[i] === "OTHERS" ? inProgress() : new Apart("NEXT", "a repetition waits for it") };
    });
  },
});

/** Whose a key is: the request's, of one before it in the same transaction, or of another transaction. */
type Holder = "MINE" | "EARLIER" | "OTHERS";

const lockKeys = async ({ db }: Work, keyed: readonly Keyed[]): Promise<Holder[]> => {
  const locks = keyed.map(({ request }) => lockOf(request));
  const { rows } = await kept(
    db,
    sql<{ k: string; taken: boolean }>`
    select k::text as k, pg_try_advisory_xact_lock(k) as taken
    from unnest(${`{${[...new Set(locks)].join(",")}}`}::bigint[]) as u(k)`,
  );
  const own = rows.filter(({ taken }) => taken).map(({ k }) => k);
  const [ours, free] = [new Set(own), new Set(own)];
  return locks.map((lock) => (free.delete(lock) ? "MINE" : ours.has(lock) ? "EARLIER" : "OTHERS"));
};

type Row = { n: number; fingerprint: string; status: number; body: string; is_new: boolean };

const findAll = async ({ db, serverNow: now }: Work, keyed: readonly Keyed[]): Promise<Found[]> => {
  const since = new Date(now.getTime() - IDEMPOTENCY_HOURS * 3_600_000).toISOString();
  const unfinished = new Date(now.getTime() - PROVISIONAL_MS).toISOString();
  const asked = keyed.map(({ request: { scope, key } }, n) => ({ n, s: scope, k: key }));
  const { rows } = await kept(
    db,
    sql<Row>`
    select r.n, t.fingerprint, t.status, t.body, t.created_at > ${unfinished}::timestamptz as is_new
    from json_to_recordset(${JSON.stringify(asked)}::json) as r(n int, s text, k text)
    join idempotency_keys t on t.scope = r.s and t.key = r.k
    where t.created_at > ${since}::timestamptz`,
  );
  const byPlace = new Map(rows.map((row) => [row.n, row]));
  return keyed.map((one, n) => foundIn(byPlace.get(n), one));
};

const foundIn = (row: Row | undefined, { secretBox, request }: Keyed): Found => {
  if (!row) return { value: undefined };
  if (row.fingerprint !== request.fingerprint) return { error: keyReused() };
  const body: unknown = JSON.parse(secretBox.open(row.body, contextOf(request)));
  if (row.status > 0) return { value: { status: row.status, body } };
  if (isJsonObject(body) && LEFT in body) {
    const { [LEFT]: left, ...rest } = body;
    return { value: { status: -row.status, body: rest, left } };
  }
  return row.is_new ? { error: inProgress() } : { value: { status: -row.status, body } };
};

const keyReused = (): DomainError =>
  new DomainError(
    "UNPROCESSABLE_ENTITY",
    "This X-Idempotency-Key was used with another request; use a new key for a new request",
    { reason: "IDEMPOTENCY_KEY_REUSED" },
  );

/**
 * Returns the response stored under the key, without locking it.
 * @throws UNPROCESSABLE_ENTITY IDEMPOTENCY_KEY_REUSED, CONFLICT IDEMPOTENCY_IN_PROGRESS
 */
export const findResponse = together({ phase: "KEYS", isWrite: false, run: findAll });

type Stored = Keyed & { response: StoredResponse };

/**
 * Stores the response in the transaction that holds the key; it is sealed, because it may contain a secret
 * that is shown once.
 *
 * @throws CONFLICT ALREADY_ANSWERED never while the key is held
 */
export const storeResponse = together({
  phase: "ANSWERS",
  isWrite: true,
  run: async ({ db, serverNow: now }, stored: readonly Stored[]) => {
    const since = new Date(now.getTime() - IDEMPOTENCY_HOURS * 3_600_000).toISOString();
    const rows = stored.map(({ request, secretBox, response }) => ({
      s: request.scope,
      k: request.key,
      t: request.tenantId,
      f: request.fingerprint,
      c: response.isProvisional === true ? -response.status : response.status,
      b: secretBox.seal(JSON.stringify(withLeft(response)), contextOf(request)),
    }));
    const written = await kept(
      db,
      sql<{ scope: string; key: string }>`
      insert into idempotency_keys as k (scope, key, tenant_id, fingerprint, status, body, created_at)
      select s, k, t, f, c, b, ${now.toISOString()}::timestamptz
      from json_to_recordset(${JSON.stringify(rows)}::json)
        as r(s text, k text, t uuid, f text, c int, b text)
      on conflict (scope, key) do update set fingerprint = excluded.fingerprint, status = excluded.status,
        body = excluded.body, created_at = excluded.created_at
      where k.created_at <= ${since}::timestamptz
      returning k.scope, k.key`,
    );
    const done = new Set(written.rows.map(({ scope, key }) => `${scope}\0${key}`));
    return stored.map(({ request: { scope, key } }): Outcome<undefined> =>
      done.has(`${scope}\0${key}`)
        ? { value: undefined }
        : { error: conflict("ALREADY_ANSWERED", "This X-Idempotency-Key has a response already") },
    );
  },
});

/**
 * Returns the response stored under the key, as `replay` has it, or makes one and stores it, in the transaction
 * of what it tells of.
 * @throws as `claimKey`
 */
export const answerOnce = async <R extends StoredResponse>(
  work: Work,
  keyed: Keyed,
  make: () => R | Promise<R>,
  replay: (stored: StoredResponse) => R = (stored) => stored as R,
): Promise<R> => {
  const stored = await claimKey(work, keyed);
  if (stored) return replay(stored);
  const response = await make();
  await storeResponse(work, { ...keyed, response });
  return response;
};

type Completed = Keyed & { body: unknown; isProvisional: boolean };

/**
 * Replaces the body of a response that was completed after its commit; a provisional one is completed once.
 * @returns the stored body: that of whoever completed it first
 */
export const completeResponse = together({
  phase: "ANSWERS",
  isWrite: true,
  run: async (work, completed: readonly Completed[]): Promise<Outcome<unknown>[]> => {
    const rows = completed.map(({ request, secretBox, body, isProvisional }) => ({
      s: request.scope,
      k: request.key,
      b: secretBox.seal(JSON.stringify(body), contextOf(request)),
      p: isProvisional,
    }));
    const update = sql<{ scope: string; key: string }>`
      update idempotency_keys t set body = r.b, status = abs(t.status)
      from json_to_recordset(${JSON.stringify(rows)}::json) as r(s text, k text, b text, p boolean)
      where t.scope = r.s and t.key = r.k and (t.status < 0 or not r.p)
      returning t.scope, t.key`;
    if (!completed.some(({ isProvisional }) => isProvisional)) {
      await unansweredKept(work.db, update);
      return completed.map(({ body }) => ({ value: body }));
    }
    const done = new Set((await kept(work.db, update)).rows.map(({ scope, key }) => `${scope}\0${key}`));
    const isDone = ({ request: { scope, key }, isProvisional }: Completed): boolean =>
      !isProvisional || done.has(`${scope}\0${key}`);
    const others = completed.filter((one) => !isDone(one));
    const found = others.length === 0 ? [] : await findAll(work, others);
    const theirs = new Map(others.map((one, i) => [one, found[i]!]));
    return completed.map((one) => {
      const other = theirs.get(one);
      return { value: other && "value" in other && other.value ? other.value.body : one.body };
    });
  },
});
