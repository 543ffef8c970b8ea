import { z } from "zod";
import { IsoTime } from "../../domain/kernel/iso-time.ts";
import { ROTATION_GRACE_SECONDS, ROTATION_GRACE_SECONDS_MAX } from "../../domain/kernel/limits.ts";
import {
  type Orders,
  type Page,
  PAGE_LIMIT_DEFAULT,
  PAGE_LIMIT_MAX,
  pageBody,
  pageOf,
  PageQuery,
  sortsOf,
} from "../../domain/kernel/paging.ts";
import { group, Reply } from "../route.ts";
import { actorOf, ADMINS, type Caller, EVERY_ROLE } from "../../domain/kernel/caller.ts";
import { type Cause, CAUSE_KINDS } from "../../domain/kernel/events/events.ts";
import type { Sharing } from "../../domain/kernel/shared-commits.ts";
import type { App } from "../../app.ts";
import { type Aged, ANSWER_AGE_MS, ReadyJson } from "../../domain/kernel/caches.ts";

const SEARCH_MAX = 100;
const TIME_MIN_MS = 0;
const TIME_MAX_MS = Date.UTC(9999, 0);

export const Direction = z.enum(["asc", "desc"]);

/** Fields shared by list queries. */
export const Order = Direction.default("desc");

/** The fields of a query that choose one of a list's orders. */
export const sortedBy = <S extends string>(orders: Orders<S, unknown>) => ({
  sort: z.enum(sortsOf(orders)).default(sortsOf(orders)[0] as never),
  order: Direction.default(orders.usual),
});

/** The query and the response of a list of `item` in pages, in one of `orders`, by `filters`. */
export const paged = <I extends z.ZodType, S extends string, F extends z.ZodRawShape>(
  item: I,
  orders: Orders<S, unknown>,
  filters: F,
) => ({ query: PageQuery.extend({ ...sortedBy(orders), ...filters }), response: pageBody(item) });

export const Search = z.string().min(1).max(SEARCH_MAX).optional();

/** A player by whom a list is filtered. */
export const ByPlayer = z
  .string()
  .min(1)
  .max(300)
  .optional()
  .meta({ description: "Id of the player, or ext: and the externalUserId" });

/** A rule by which a list is filtered. */
export const ByRule = z.string().min(1).max(100).optional();

/** What caused the changes that a list has. */
export const ByCause = z.object({
  cause: z.enum(CAUSE_KINDS).optional().meta({ description: "Kind of the cause" }),
  ruleId: ByRule.meta({ description: "Id or key of the rule that caused it" }),
});

/** `true` or `false` in a query. */
export const Flag = z
  .enum(["true", "false"])
  .optional()
  .transform((text) => (text === undefined ? undefined : text === "true"))
  .meta({
    override: ({ jsonSchema }) => {
      jsonSchema.type = "boolean";
      delete jsonSchema.enum;
    },
  });

/** Within the range that the database can compare; OpenAPI shows the text, not the parsed Date. */
const AnyTime = IsoTime.transform((text) => new Date(text)).refine(
  (time) => time.getTime() >= TIME_MIN_MS && time.getTime() < TIME_MAX_MS,
  {
    error: "must be a time of the years 1970 to 9998",
  },
);
const Time = AnyTime.optional();
const TIME_FIELD = { anyOf: ["date-time", "date"].map((format) => ({ type: "string" as const, format })) };

/** A required time in a query. */
export const Moment = AnyTime.meta({ override: TIME_FIELD });

/** A required time in a query, or a day of the zone in which the answer counts days. */
export const DayOrMoment = z
  .union(
    [z.iso.date().refine((day) => Date.parse(day) >= TIME_MIN_MS && Date.parse(day) < TIME_MAX_MS), AnyTime],
    {
      error: "must be a time or a day of the years 1970 to 9998, such as 2026-01-10T18:00:00Z or 2026-01-10",
    },
  )
  .meta({ override: { type: "string" } });

/** The time range of a list. */
export const Span = z.object({
  from: Time.meta({ description: "At this time or later", override: TIME_FIELD }),
  to: Time.meta({ description: "Before this time", override: TIME_FIELD }),
});

/** Number of entries of a page. */
export const Limit = z.coerce.number().int().min(1).max(PAGE_LIMIT_MAX).default(PAGE_LIMIT_DEFAULT);
/** As many as asked for of a list that has no pages, since it has at most `max`. */
export const firstOf = (max: number) =>
  z.coerce.number().int().min(1).max(max).default(max).meta({ description: "The first ones alone" });
const CURSOR = { description: "pagination.nextCursor of the page before" };

/** The query of a list that goes on after an id. */
export const AfterId = z.object({ limit: Limit, cursor: z.uuid().optional().meta(CURSOR) });
/** The query of a list that goes on after a number. */
export const AfterNumber = z.object({
  limit: Limit,
  cursor: z.coerce.number().int().min(1).max(Number.MAX_SAFE_INTEGER).optional().meta(CURSOR),
});

/** Builds the response schema of a list of `item` that goes on after a cursor. */
export const cursorBody = <S extends z.ZodType>(item: S, cursor: z.ZodType<string, string> = z.string()) =>
  z.object({
    data: z.array(item),
    pagination: z.object({ limit: z.int(), nextCursor: cursor.nullable() }),
  });

/** Builds a page of the `name` of a list, with the header that marks an estimated total. */
export const pageReply = <K extends string, T, S = T>(
  listed: { total: number; isEstimated?: boolean } & Readonly<Record<K, readonly T[]>>,
  name: K,
  query: PageQuery,
  show: (row: T) => S = (row) => row as unknown as S,
): Reply<Page<S>> =>
  new Reply(
    200,
    pageOf(listed[name].map(show), listed.total, query),
    listed.isEstimated === true ? { "X-Total-Estimated": "true" } : {},
  );

/** Returns the cause recorded for an API caller's change to a player. */
export const causeOf = (caller: Caller): Cause => ({ kind: "API", actor: actorOf(caller) });

/** Operations on what players have: those of who may read it, and those of who may change it. */
export const onPlayers = <const T extends string>(tag: T) => {
  const common = group({ tag, project: "caller" });
  return {
    read: common.with({ access: { scope: "players:read", roles: EVERY_ROLE } }),
    write: common.with({ access: { scope: "players:write", roles: ADMINS } }),
  };
};

/** The sharing of changes of the player whom the path names. */
export const ofPathPlayer = ({ params }: { params: { playerId: string } }): Sharing => ({
  player: params.playerId,
  isPlain: true,
});

/** How long an old secret works on beside its new one. */
export const graceSeconds = (description: string) =>
  z.int().min(0).max(ROTATION_GRACE_SECONDS_MAX).default(ROTATION_GRACE_SECONDS).meta({ description });

/** How many there are of each of `names`. */
export const countsOf = <K extends string>(names: readonly K[]) =>
  z.object(Object.fromEntries(names.map((name) => [name, z.int()])) as Record<K, z.ZodInt>);

/** Responses without a record. */
export const Accepted = z.object({ accepted: z.literal(true) });
export const Deleted = z.object({ deleted: z.literal(true) });

/** Answers when something is deleted. */
export const deleted = async (done: Promise<unknown>): Promise<{ deleted: true }> => {
  await done;
  return { deleted: true };
};

/** Answers when something is done that needs no other answer. */
export const accepted = async (done: Promise<unknown>): Promise<{ accepted: true }> => {
  await done;
  return { accepted: true };
};

/** How old what an answer shows may be, in ms: everything committed before that is in it. */
const DATA_AGE = "X-Data-Age-Ms";

/** The header of answers that may come from memory, for `headers` of a route. */
export const AGED = {
  [DATA_AGE]:
    `How old what is shown may be, in ms: what is kept is used for ${ANSWER_AGE_MS}, and reading takes its ` +
    "time; 0 for what was read now",
} as const;

export const ageOf = ({ ageMs }: Aged<unknown>) => ({ [DATA_AGE]: String(Math.round(ageMs)) });

export const Fresh = Flag.meta({ description: `true: as it is now, not as up to ${ANSWER_AGE_MS} ms ago` });

type Kept = {
  projectId: string;
  /** What the answer depends on besides the project. */
  key: unknown[];
  isFresh: boolean;
  read: () => Promise<unknown>;
};

/** Answers with what was read at most ANSWER_AGE_MS ago for the same key, or with what is read now. */
export const keptReply = async (app: App, { projectId, key, isFresh, read }: Kept): Promise<Reply<never>> => {
  const name = JSON.stringify([projectId, ...key]);
  const kept = await app.answers.get(
    { projectId, owner: projectId, key: name },
    {
      isFresh,
      make: async () => {
        const ready = new ReadyJson(await read());
        return { value: ready, bytes: ready.bytes + name.length };
      },
    },
  );
  return new Reply(200, kept.value as never, ageOf(kept));
};
