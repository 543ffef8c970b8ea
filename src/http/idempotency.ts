import { createHash, type Hash } from "node:crypto";
import type { Request } from "express";
import type { App } from "../app.ts";
import type { Caller } from "../domain/kernel/caller.ts";
import { DomainError, invalid } from "../domain/kernel/errors.ts";
import { JSON_MAX_DEPTH } from "../domain/kernel/hostile-json.ts";
import {
  answerOnce,
  completeResponse,
  findResponse,
  IDEMPOTENCY_KEY_MAX,
  type KeyedRequest,
  type StoredResponse,
} from "../domain/kernel/idempotency.ts";
import { outageOf } from "../domain/kernel/outages.ts";
import { inSlices, type Steps } from "../domain/kernel/slices.ts";
import { joining } from "../domain/kernel/transact.ts";
import type { RowScope, Work } from "../domain/kernel/work.ts";
import { projectsOf } from "../domain/tracking/event-input.ts";
import { type AnyRoute, perform, Reply, type RouteContext } from "./route.ts";
import { errorBody } from "./validate.ts";

/** Operations that validate items themselves receive any depth, and refuse deeper items one by one. */
const DEPTH_MAX = JSON_MAX_DEPTH + 8;
/** Objects with more names are hashed in the order received: sorting them would take too long. */
const NAMES_SORTED_MAX = 5_000;
const isNested = (value: unknown): value is object => typeof value === "object" && value !== null;

/** Writes a value without parts, or one that is too deep. */
const writePlain = (hash: Hash, value: unknown): void =>
  void hash.update(isNested(value) ? "…" : (JSON.stringify(value) ?? "null"));

function* writeItem(hash: Hash, value: unknown, depth: number): Steps<void> {
  yield;
  if (isNested(value) && depth <= DEPTH_MAX) yield* writeNested(hash, value, depth);
  else writePlain(hash, value);
  hash.update(",");
}

function* writeNested(hash: Hash, value: object, depth: number): Steps<void> {
  hash.update(Array.isArray(value) ? "[" : "{");
  if (Array.isArray(value)) for (const item of value) yield* writeItem(hash, item, depth + 1);
  else yield* writeFields(hash, value as Record<string, unknown>, depth);
  hash.update(Array.isArray(value) ? "]" : "}");
}

function* writeFields(hash: Hash, fields: Record<string, unknown>, depth: number): Steps<void> {
  const names = Object.keys(fields);
  yield;
  for (const name of names.length > NAMES_SORTED_MAX ? names : names.toSorted()) {
    hash.update(`${JSON.stringify(name)}:`);
    yield* writeItem(hash, fields[name], depth + 1);
  }
}

/**
 * Computes SHA-256 of JSON, in hex: equal for the same JSON with its names in another order. Yields to other
 * work in between, since a body may have hundreds of thousands of parts.
 */
const fingerprintOf = async (json: Record<string, unknown>): Promise<string> => {
  const hash = createHash("sha256");
  await inSlices(writeNested(hash, json, 0));
  return hash.digest("hex");
};

const KEY = new RegExp(`^[\\x21-\\x7e]{1,${IDEMPOTENCY_KEY_MAX}}$`);

/** Refusals that are results of the work: a repetition would fail in the same way. Others are not stored. */
const KEPT_ERRORS: ReadonlySet<DomainError["code"]> = new Set([
  "NOT_FOUND",
  "CONFLICT",
  "GONE",
  "UNPROCESSABLE_ENTITY",
]);

export const takesIdempotencyKey = (route: AnyRoute): boolean =>
  route.method === "post" && route.takesNoIdempotencyKey !== true && route.access !== "public";

/**
 * Returns the owner of the caller's idempotency keys. API keys with the same scopes share them, such as a key
 * and its rotation; callers with different rights must not receive each other's answers.
 */
const ownerOf = (caller: Caller, projectId: string): string => {
  if (caller.kind === "key") return `project:${caller.projectId}:${scopesHash(caller.scopes)}`;
  if (caller.kind === "user") return `user:${caller.userId}`;
  return caller.kind === "admin" ? `admin:${caller.adminId}` : `project:${projectId}`;
};

const scopesHash = (scopes: readonly string[]): string =>
  createHash("sha256")
    .update([...new Set(scopes)].toSorted().join(" "))
    .digest("base64url");

export type Execution = {
  route: AnyRoute;
  context: RouteContext<unknown, unknown, unknown>;
  /** The rows that the operation may see. */
  rowScope: RowScope;
  /** What the route's `prepare` returned; undefined until then. */
  prepared?: unknown;
};

const prepare = async (app: App, execution: Execution): Promise<void> => {
  execution.prepared = await execution.route.prepare?.(app, execution.context);
};

/**
 * Identifies the request by its key; undefined without the header. `body` is the JSON as received.
 * @throws DomainError VALIDATION_ERROR IDEMPOTENCY_KEY_INVALID
 */
export const keyedRequest = async (
  request: Request,
  { route, context }: Execution,
  body: unknown,
): Promise<KeyedRequest | undefined> => {
  const key = request.get("x-idempotency-key");
  if (key === undefined || !takesIdempotencyKey(route)) return undefined;
  if (!KEY.test(key)) {
    const message = `must be 1 to ${IDEMPOTENCY_KEY_MAX} visible ASCII characters`;
    throw invalid("X-Idempotency-Key", message, "IDEMPOTENCY_KEY_INVALID");
  }
  const { caller, projectId } = context;
  const { params, query } = request;
  // A user whose role has changed must not receive an answer given to the former role.
  const role = caller.kind === "user" ? caller.role : "";
  const parts = { path: route.path, params, query, projectId, role, body };
  return {
    scope: ownerOf(caller, projectId),
    key,
    tenantId: caller.kind === "user" || caller.kind === "key" ? caller.tenantId : null,
    fingerprint: await fingerprintOf(parts),
  };
};

const runPrepared = async (app: App, { route, context, prepared }: Execution): Promise<Reply<unknown>> => {
  const result = await perform(route, app, { ...context, prepared });
  return result instanceof Reply ? result : new Reply(route.status ?? 200, result);
};

/** Returns what finishes a reply, if anything does. */
const finisherOf = ({ route }: Execution, { finish, left }: Reply<unknown>) =>
  left === undefined ? finish : (app: App): Promise<unknown> => route.resume!(app, left);

/**
 * Runs an operation whose request has no key. `app` is the operation's own, `lasting` the same for what has
 * to be done also when the client has gone.
 */
export const runOnce = async (app: App, lasting: App, execution: Execution): Promise<Reply<unknown>> => {
  await execution.route.requires?.(app, execution.context);
  await prepare(app, execution);
  const reply = await runPrepared(app, execution);
  const finish = finisherOf(execution, reply);
  return finish ? new Reply(reply.status, await finish(lasting), reply.headers) : reply;
};

/** A response to be completed comes to whoever repeats the request: the process that had it may be gone. */
const replay = ({ status, body, left }: StoredResponse): Reply<unknown> => {
  const reply = new Reply(status, body, { "X-Idempotent-Replayed": "true" });
  return left === undefined ? reply : Object.assign(reply, { isProvisional: true, left });
};

/**
 * Runs an operation once per key. The answer is stored in the transaction of the work, so after a crash there
 * is either both or neither; a refusal that is a result of the work is stored after the rollback.
 * @throws DomainError CONFLICT IDEMPOTENCY_IN_PROGRESS while another request has the key,
 * UNPROCESSABLE_ENTITY IDEMPOTENCY_KEY_REUSED
 */
export const runKeyed = async (
  app: App,
  lasting: App,
  execution: Execution,
  request: KeyedRequest,
): Promise<Reply<unknown>> => {
  const { transact, secretBox } = app;
  await execution.route.requires?.(app, execution.context);
  if (execution.route.prepare) {
    const known = await transact((work) => findResponse(work, { secretBox, request }));
    if (known) return finished(lasting, execution, request, replay(known));
  }
  let reply: Reply<unknown>;
  try {
    await prepare(app, execution);
    reply = await transact((work) =>
      answerOnce(work, { secretBox, request }, () => runOrKeep(app, execution, work), replay),
    );
  } catch (error) {
    if (!isKept(error)) throw error;
    reply = await keepRefusal(app, execution, request, error);
  }
  return finished(lasting, execution, request, reply);
};

/** Finishes a reply, and stores the body that this results in. */
const finished = async (
  lasting: App,
  execution: Execution,
  request: KeyedRequest,
  reply: Reply<unknown>,
): Promise<Reply<unknown>> => {
  const finish = finisherOf(execution, reply);
  if (!finish) return reply;
  const { isProvisional } = reply;
  const body = await complete(lasting, request, { body: await finish(lasting), isProvisional });
  return new Reply(reply.status, body, reply.headers);
};

/** Whether an error is a result of the work, to be stored. */
const isKept = (error: unknown): error is DomainError =>
  error instanceof DomainError && KEPT_ERRORS.has(error.code) && !error.reason?.startsWith("IDEMPOTENCY_");

/** Runs the operation in the transaction of its key. @param work that transaction */
const runInside = (app: App, execution: Execution, work: Work): Promise<Reply<unknown>> => {
  const transactAs = joining(work, execution.rowScope);
  const ingest: App["ingest"] = (sender, events) => {
    const rowScope = withProjects(execution.rowScope, projectsOf(events));
    return transactAs(rowScope)((joined) => app.ingestIn(joined)(sender, events));
  };
  const own: App = { ...app, transactAs, transact: transactAs(execution.rowScope), ingest };
  return runPrepared(own, execution);
};

/** As `runInside`; a refusal of a request that has written nothing to a shared transaction is its answer. */
const runOrKeep = async (app: App, execution: Execution, work: Work): Promise<Reply<unknown>> => {
  try {
    return await runInside(app, execution, work);
  } catch (error) {
    if (!isKept(error) || work.member?.hasWritten !== false) throw error;
    return refusalOf(app, execution, error);
  }
};

const refusalOf = ({ clock }: App, { context }: Execution, error: DomainError): Reply<unknown> =>
  new Reply<unknown>(error.status, errorBody(error, context.actor.requestId, clock()));

/** Stores the final body of completed work, and returns what is stored. */
const complete = async (
  { transact, secretBox }: App,
  request: KeyedRequest,
  { body, isProvisional }: { body: unknown; isProvisional: boolean },
): Promise<unknown> => {
  try {
    return await transact((work) => completeResponse(work, { secretBox, request, body, isProvisional }));
  } catch (error) {
    // What is not stored is not said: a repetition finishes it, and ranks may be others by then.
    if (isProvisional || outageOf(error) === undefined) throw error;
    return body;
  }
};

/** A user's events may belong to several projects, which the request as a whole does not name. */
const withProjects = (rowScope: RowScope, projectIds: readonly string[]): RowScope =>
  rowScope.role === "web" ? { ...rowScope, projectIds } : rowScope;

const keepRefusal = (
  app: App,
  execution: Execution,
  request: KeyedRequest,
  error: DomainError,
): Promise<Reply<unknown>> =>
  app.transact((work) =>
    answerOnce(work, { secretBox: app.secretBox, request }, () => refusalOf(app, execution, error), replay),
  );
