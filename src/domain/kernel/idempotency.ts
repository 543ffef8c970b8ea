import { createHash } from "node:crypto";
import { sql } from "kysely";
import { conflict, DomainError } from "./errors.ts";
import type { SecretBox } from "./secret-box.ts";
import type { Work } from "./work.ts";

/** How long a stored response is returned for its key. */
export const IDEMPOTENCY_HOURS = 24;
export const IDEMPOTENCY_KEY_MAX = 255;
/**
 * How long a response may be provisional; after that, the process that should complete it is considered dead.
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
};

const contextOf = ({ scope, key }: KeyedRequest): string => `idempotency_keys:${scope}:${key}`;

/** First 64 bits of a hash: two keys share a lock once in 2^64. */
const lockOf = (request: KeyedRequest): string =>
  createHash("sha256").update(contextOf(request)).digest().readBigInt64BE().toString();

/**
 * Locks the key until the end of the transaction, and returns the response stored under it. The lock is the
 * database's, so a process that dies leaves nothing behind.
 *
 * @throws CONFLICT IDEMPOTENCY_IN_PROGRESS, UNPROCESSABLE_ENTITY IDEMPOTENCY_KEY_REUSED
 */
export const claimKey = async (
  work: Work,
  secretBox: SecretBox,
  request: KeyedRequest,
): Promise<StoredResponse | undefined> => {
  // Separate: a statement that also read the row would see it as of before the lock.
  const { rows } = await sql<{ taken: boolean }>`
    select pg_try_advisory_xact_lock(${lockOf(request)}::bigint) as taken`.execute(work.db);
  const stored = await findResponse(work, secretBox, request);
  // A request that only replays the response holds the key for a moment, too.
  if (rows[0]?.taken !== true && stored === undefined) throw inProgress();
  return stored;
};

const inProgress = (): DomainError =>
  new DomainError("CONFLICT", "A request with this X-Idempotency-Key is still in progress; try again", {
    reason: "IDEMPOTENCY_IN_PROGRESS",
    retryAfterSeconds: 1,
  });

/**
 * Returns the response stored under the key, without locking it.
 * @throws UNPROCESSABLE_ENTITY IDEMPOTENCY_KEY_REUSED, CONFLICT IDEMPOTENCY_IN_PROGRESS
 */
export const findResponse = async (
  { db, now }: Work,
  secretBox: SecretBox,
  request: KeyedRequest,
): Promise<StoredResponse | undefined> => {
  const since = new Date(now.getTime() - IDEMPOTENCY_HOURS * 3_600_000).toISOString();
  const unfinished = new Date(now.getTime() - PROVISIONAL_MS).toISOString();
  type Row = { fingerprint: string; status: number; body: string; is_unfinished: boolean };
  const { rows } = await sql<Row>`
    select fingerprint, abs(status) as status, body,
      status < 0 and created_at > ${unfinished}::timestamptz as is_unfinished from idempotency_keys
    where scope = ${request.scope} and key = ${request.key}
      and created_at > ${since}::timestamptz`.execute(db);
  const [row] = rows;
  if (!row) return undefined;
  if (row.fingerprint !== request.fingerprint) {
    throw new DomainError(
      "UNPROCESSABLE_ENTITY",
      "This X-Idempotency-Key was used with another request; use a new key for a new request",
      { reason: "IDEMPOTENCY_KEY_REUSED" },
    );
  }
  if (row.is_unfinished) throw inProgress();
  const body: unknown = JSON.parse(secretBox.open(row.body, contextOf(request)));
  return { status: row.status, body };
};

/**
 * Stores the response in the transaction that holds the key; it is sealed, because it may contain a secret
 * that is shown once.
 *
 * @throws CONFLICT ALREADY_ANSWERED never while the key is held
 */
export const storeResponse = async (
  { db, now }: Work,
  secretBox: SecretBox,
  request: KeyedRequest,
  { status, body, isProvisional = false }: StoredResponse,
): Promise<void> => {
  const sealed = secretBox.seal(JSON.stringify(body), contextOf(request));
  const since = new Date(now.getTime() - IDEMPOTENCY_HOURS * 3_600_000).toISOString();
  const { rows } = await sql<{ scope: string }>`
    insert into idempotency_keys as k (scope, key, tenant_id, fingerprint, status, body, created_at)
    values (${request.scope}, ${request.key}, ${request.tenantId}::uuid, ${request.fingerprint},
      ${isProvisional ? -status : status}, ${sealed}, ${now.toISOString()}::timestamptz)
    on conflict (scope, key) do update set fingerprint = excluded.fingerprint, status = excluded.status,
      body = excluded.body, created_at = excluded.created_at
    where k.created_at <= ${since}::timestamptz
    returning scope`.execute(db);
  if (rows.length === 0) throw conflict("ALREADY_ANSWERED", "This X-Idempotency-Key has a response already");
};

/** Replaces the body of a response that was completed after its commit. */
export const completeResponse = async (
  { db }: Work,
  secretBox: SecretBox,
  request: KeyedRequest,
  body: unknown,
): Promise<void> => {
  const sealed = secretBox.seal(JSON.stringify(body), contextOf(request));
  await sql`
    update idempotency_keys set body = ${sealed}, status = abs(status)
    where scope = ${request.scope} and key = ${request.key}`.execute(db);
};
