import assert from "node:assert/strict";
import { z } from "zod";
import type { App } from "../app.ts";
import type { CustomHost } from "../domain/accounts/domains/known.ts";
import type { Access, Actor, Caller } from "../domain/kernel/caller.ts";
import type { ErrorCode } from "../domain/kernel/errors.ts";
import type { Timeouts } from "../domain/kernel/timeouts.ts";
import type { Work } from "../domain/kernel/work.ts";
import type { Sharing } from "../domain/kernel/shared-commits.ts";
import type { LimitName } from "../domain/accounts/rate-limits/limiter.ts";
import { Key } from "../domain/evaluation/language/syntax.ts";

const anyId = z.string().max(64);
const text = z.string();

/** What names in paths stand for; others are ids of at most 64 characters. */
export const PATH_VALUES = {
  sessionId: text,
  passkeyId: text,
  memberId: text,
  invitationId: text,
  projectId: text,
  keyId: text,
  userId: text,
  roomId: text,
  emailLogId: text,
  playerId: z.string().max(300).meta({ description: "The player's UUID, or ext: and the externalUserId" }),
  leaderboardId: z.string().min(1).max(64).meta({ description: "The leaderboard's UUID or key" }),
  ruleId: anyId.meta({ description: "The rule's UUID or its key", example: "weekend-double" }),
  questId: anyId.meta({ description: "The quest's UUID or its key", example: "first-week" }),
  adventureId: anyId.meta({ description: "The adventure's UUID or its key", example: "winter" }),
  stepKey: anyId.meta({ description: "The key of the step" }),
  streakKey: anyId.meta({ description: "The key of the streak" }),
  badgeId: anyId.meta({ description: "The UUID or the key of the badge" }),
  rewardId: anyId.meta({ description: "The UUID or the key of the reward" }),
  segmentId: anyId.meta({ description: "The UUID or the key of the segment" }),
  currencyId: anyId.meta({ description: "The UUID or the key of the currency" }),
  streakId: anyId.meta({ description: "The UUID or the key of the streak" }),
  levelId: anyId.meta({ description: "The UUID or the key of the level" }),
  boostId: anyId.meta({ description: "The UUID or the key of the boost" }),
  channelId: z.string().min(1).max(64).meta({ description: "The channel's UUID or its key, such as global" }),
  seq: z.coerce.number().int().min(1).max(Number.MAX_SAFE_INTEGER),
  emoji: z.string().min(1).max(64),
  provider: z.string().meta({ description: "google or github", example: "google" }),
  currencyKey: Key,
  key: Key,
};

type Names<Path extends string> = Path extends `${string}{${infer Name}}${infer Rest}`
  ? Name | Names<Rest>
  : never;

/** What a path's names stand for. */
type PathValues<Path extends string> = {
  [Name in Names<Path>]: Name extends keyof typeof PATH_VALUES
    ? z.output<(typeof PATH_VALUES)[Name]>
    : string;
};

/** Returns the schema of what a path names; undefined for one that names nothing. */
const pathParams = (path: string): z.ZodObject | undefined => {
  const names = [...path.matchAll(/\{(\w+)\}/g)].map(([, name]) => name!);
  if (names.length === 0) return undefined;
  const known: Readonly<Record<string, z.ZodType>> = PATH_VALUES;
  return z.object(Object.fromEntries(names.map((name) => [name, known[name] ?? anyId])));
};

type Shape = z.ZodType;
type Out<S> = S extends Shape ? z.output<S> : undefined;

/**
 * Where an operation's project comes from. "none": the operation has no project. "path": `{projectId}` in the
 * path. "caller": the key's project; for a console user `X-Project-ID`, else `projectId` in the query, else
 * the tenant's only project, else 400. "optional": as "caller", but "" where that is a 400 for want of a
 * name.
 */
export type ProjectSource = "none" | "path" | "caller" | "optional";

export type RouteContext<P, Q, B> = {
  caller: Caller;
  /** Checked to be the caller's own; "" when the route's `project` is "none". */
  projectId: string;
  params: P;
  query: Q;
  body: B;
  /** Names of fields that the body has and its schema does not. */
  ignored: readonly string[];
  /** The custom domain that the request came by; undefined for this server's own address. */
  host: CustomHost | undefined;
  /** The raw Origin header, which browsers alone send: where the page is from that sends the request. */
  origin: string | undefined;
  /** The raw Cookie header. */
  cookie: string;
  /** With `X-Session: cookie`, for a route with `session`: the refresh token of the cookie, if it came. */
  session: { refreshToken: string | undefined } | undefined;
  /** For a route with `signatureHeader`: the body as sent, and the header that signs it. */
  signed: { bytes: Uint8Array; signature: string };
  /** Aborted when the client disconnects before the response; long-running work must check it. */
  signal: AbortSignal;
  /** The caller and their address: `transact` of the App passed to `run` has it as `work.by`. */
  actor: Actor;
};

/** Sets a status other than the route's own, or headers. */
export class Reply<T> {
  readonly status: number;
  readonly body: T;
  readonly headers: Record<string, string>;
  /**
   * Runs after the commit and may change the body: waiting for others, network requests. With an idempotency
   * key, `run` shares one transaction with the key's row, so such things must not be in it; `app` is the
   * operation's own again.
   */
  finish: ((app: App) => Promise<T>) | undefined;
  /**
   * The body is not final before `finish` has run: a repetition of the request under the same idempotency key
   * is asked to wait, or finishes it.
   */
  isProvisional = false;
  /** With what a repetition completes the provisional body by the route's `resume`, as JSON. */
  left: unknown;
  constructor(
    status: number,
    body: T,
    headers: Record<string, string> = {},
    finish?: (app: App) => Promise<T>,
  ) {
    this.status = status;
    this.body = body;
    this.headers = headers;
    this.finish = finish;
  }

  /** @param body answer to a repeated request when the process died before `finish` had ended */
  static provisional<T>(body: T, finish: (app: App) => Promise<T>): Reply<T> {
    return Object.assign(new Reply(200, body, {}, finish), { isProvisional: true });
  }

  /** The route's `resume` finishes it, given `left`: here, and in a repetition that finds it provisional. */
  static resumable<T>(body: T, left: unknown): Reply<T> {
    return Object.assign(new Reply(200, body), { isProvisional: true, left });
  }
}

/** What an operation is besides its method, path and id, and whose it is. */
type Details<
  P extends Shape | undefined,
  Q extends Shape | undefined,
  B extends Shape | undefined,
  R extends Shape,
  X,
> = {
  summary: string;
  description?: string;
  params?: P;
  query?: Q;
  body?: B;
  /** A body that works, for the document; default: one made from the schema. */
  example?: unknown;
  /** The body as the document shows it, where `body` leaves checks to the operation itself. */
  described?: Shape;
  /** Fields that `body` does not have are accepted: `run` names them in the answer. Else they are refused. */
  namesIgnored?: true;
  /** Bytes; default BODY_LIMIT. */
  bodyLimit?: number;
  /** Names and values in the JSON of the body; default BODY_PARTS_MAX, or LARGE_BODY_PARTS_MAX. */
  bodyPartsMax?: number;
  /** The body is a form, as pages post it across sites, and no JSON: each name once. */
  takesForm?: true;
  /** The header that signs the bytes of the body: `run` verifies it. */
  signatureHeader?: string;
  /**
   * For a route with `signatureHeader`: throws unless the body is signed, before it is parsed. Requests count
   * against the limit of their address only if it throws.
   */
  requireSigned?(app: App, signed: { bytes: Uint8Array; signature: string }): Promise<unknown>;
  /** The body may come as gzip; `bodyLimit` counts what it inflates to. */
  takesGzip?: true;
  /**
   * Checks the body's hostile values (NUL, `__proto__`, depth) item by item itself; otherwise one refuses the
   * whole body.
   */
  itemised?: boolean;
  /**
   * Parses the body in place of `body`, which then only describes it: for bodies too large to be parsed at
   * once. Throws ZodError.
   */
  readBody?(raw: unknown): Promise<Out<B>>;
  /** The status when `run` returns a plain value; default 200. 302: it redirects, by Reply's headers. */
  status?: 200 | 201 | 302;
  /** An additional status returned through Reply (an upsert has both). */
  otherStatus?: 200 | 201;
  /** Limits by the client's address, in addition to those of the caller's kind. */
  limits?: readonly LimitName[];
  /** What it does to the session of a console user, which pages may keep in a cookie: cookie-session.ts. */
  session?: "begins" | "renews" | "ends";
  /** The document says that a body is needed, although `{}` is valid for some callers. */
  needsBody?: true;
  /**
   * POST only: takes no X-Idempotency-Key, because its work is not one transaction. Operations that are open to
   * everyone never take one.
   */
  takesNoIdempotencyKey?: true;
  /** GET only: clients may keep the answer and ask by its ETag whether it has changed. */
  isRevalidated?: true;
  /** Headers of its successful answers beside those of every answer, and what they say. */
  headers?: Readonly<Record<`X-${string}`, string>>;
  /** A page whose rows are never large: as many as come may be made at once. */
  hasSmallRows?: true;
  /** Its body or answer is the configuration of a whole project: few are in memory at once. */
  isOfConfiguration?: true;
  /** It reads so much that it keeps the database busy, as analytics do: few are asked at once. */
  isQuestion?: true;
  /** It answers with a file that is made while it is read, from one snapshot: few are open at once. */
  isStream?: true;
  /** It only reads, and what it reads may be some seconds old: it asks a replica where there is one. */
  readsReplica?: true;
  /** Media types of its successful answers; default JSON, which alone has the schema `response`. */
  media?: readonly string[];
  /** A part of its file may be asked for by Range. */
  hasRanges?: true;
  /** Time limits of its database work; default: those of requests. */
  timeouts?: Timeouts;
  /** Announces removal; responses have X-Deprecated and Sunset. */
  deprecated?: { sunset: Date };
  /** Error codes in addition to those of every operation (`errorsOf` in openapi.ts). */
  errors?: readonly ErrorCode[];
  /**
   * Its work is one `transact` that changes one player by steps of `together`: it shares transactions with
   * other requests of the project. Returns whose it is.
   */
  sharing?(context: Pick<RouteContext<Out<P>, Out<Q>, Out<B>>, "params" | "body">): Sharing;
  /**
   * Checked before each answer, also one that an idempotency key repeats: it may hold a secret, which is for
   * whoever may ask for it now. @throws DomainError
   */
  requires?(app: App, context: RouteContext<Out<P>, Out<Q>, Out<B>>): Promise<void>;
  /**
   * Runs before the transaction of `run`, because it waits for something other than the database, or takes
   * back what it does there; its value is `prepared`. Not called when an idempotency key answers instead.
   */
  prepare?(app: App, context: RouteContext<Out<P>, Out<Q>, Out<B>>): Promise<X>;
  /** What the operation does, in one transaction. Every operation has this, or `outside`. */
  run?(
    work: Work,
    context: RouteContext<Out<P>, Out<Q>, Out<B>> & { prepared: X },
    app: App,
  ): Promise<z.input<R> | Reply<z.input<R>>>;
  /** For operations that need none, several, or to wait for something else: what they do. */
  outside?(
    app: App,
    context: RouteContext<Out<P>, Out<Q>, Out<B>> & { prepared: X },
  ): Promise<z.input<R> | Reply<z.input<R>>>;
  /** Finishes what `run` has returned by `Reply.resumable`, given its `left`. May run more than once. */
  resume?(app: App, left: unknown): Promise<z.input<R>>;
  /**
   * Runs after `run` has thrown and its transaction was rolled back, before the error is returned: with an
   * idempotency key too, and when `prepare` has thrown: `prepared` is undefined then. Not called for a
   * refusal that is repeated for a key.
   */
  onRefused?(
    app: App,
    context: RouteContext<Out<P>, Out<Q>, Out<B>> & { prepared: X | undefined },
    error: unknown,
  ): Promise<void>;
};

/** What every operation has, by itself or from its group. */
type Needed<R extends Shape> = { tag: string; access: Access; project: ProjectSource; response: R };

type Method = "get" | "post" | "put" | "patch" | "delete";

type Route<
  P extends Shape | undefined,
  Q extends Shape | undefined,
  B extends Shape | undefined,
  R extends Shape,
  X = undefined,
> = Details<P, Q, B, R, X> &
  Needed<R> & {
    method: Method;
    /** Path template without a prefix: `/players/{playerId}`. */
    path: string;
    /** The OpenAPI operationId, unique. */
    id: string;
  };

// oxlint-disable-next-line typescript/no-explicit-any -- the list holds routes of every shape
export type AnyRoute = Route<any, any, any, any, any>;

/** Does what an operation does. */
export const perform = (
  { run, outside }: AnyRoute,
  app: App,
  context: RouteContext<unknown, unknown, unknown> & { prepared: unknown },
): Promise<unknown> => (run ? app.transact((work) => run(work, context, app)) : outside!(app, context));

/** Whether a body is read and checked; a missing one counts as `{}`. */
export const takesBody = ({ method, body }: AnyRoute): boolean =>
  body !== undefined || method === "post" || method === "put" || method === "patch";

/** Defines an operation: checked here, served by server.ts, described by openapi.ts. */
export const route = <
  R extends Shape,
  P extends Shape | undefined = undefined,
  Q extends Shape | undefined = undefined,
  B extends Shape | undefined = undefined,
  X = undefined,
>(
  definition: Route<P, Q, B, R, X>,
): AnyRoute => {
  assert((definition.run === undefined) !== (definition.outside === undefined), definition.id);
  return definition.namesIgnored ? definition : { ...definition, body: strictBody(definition.body) };
};

/** A misspelt field of a change would be lost without a word, such as the passcode of a private lobby. */
const strictBody = <B extends Shape | undefined>(body: B): B | z.ZodType => {
  if (body instanceof z.ZodOptional) {
    const given = body.unwrap() as Shape;
    const strict = strictBody(given);
    return strict === given ? body : strict.optional();
  }
  if (!(body instanceof z.ZodObject) || body.def.catchall !== undefined) return body;
  const meta = body.meta() ?? {};
  assert(meta.id === undefined, "a body with a name of its own is a z.strictObject");
  return body.strict().meta(meta);
};

/** What the operations of a group have in common. */
type Common = Partial<Omit<AnyRoute, "method" | "path" | "id">>;

/** The schema that a group gives its operations. */
type Given<G, K extends string, D> = G extends { readonly [key in K]: infer S extends Shape } ? S : D;

type Define<G extends Common> = <
  Path extends string,
  P extends Shape = Given<G, "params", z.ZodType<PathValues<Path>>>,
  Q extends Shape | undefined = undefined,
  B extends Shape | undefined = Given<G, "body", undefined>,
  R extends Shape = Given<G, "response", never>,
  X = undefined,
>(
  path: Path,
  id: string,
  details: Details<P, Q, B, R, X> & Partial<Needed<R>> & Omit<Needed<R>, keyof G>,
) => AnyRoute;

/** What most groups say. */
export type Owned = { tag: string; access: Access; project: ProjectSource };

export type Group<G extends Common> = Record<Method, Define<G>> & {
  common: G;
  /** A group that has this too, or instead. */
  with<const M extends Common>(more: M): Group<Omit<G, keyof M> & M>;
};

/**
 * Operations with something in common: `badges.get("/badges/{badgeId}", "getBadge", { … })`. What the path
 * names need no `params`, if `PATH_VALUES` says what they are.
 */
export const group = <const G extends Common>(common: G): Group<G> => {
  const define =
    (method: Method) =>
    (path: string, id: string, details: object): AnyRoute =>
      route({ params: pathParams(path), ...common, ...details, method, path, id } as AnyRoute);
  return {
    common,
    with: (more: Common) => group({ ...common, ...more }),
    get: define("get"),
    post: define("post"),
    put: define("put"),
    patch: define("patch"),
    delete: define("delete"),
  } as unknown as Group<G>;
};
