import { z } from "zod";
import type { App } from "../../app.ts";
import { ask, Envelope } from "../../domain/analytics/ask.ts";
import {
  createListSegment,
  LIST_AT_ONCE,
  LIST_SEGMENT_MAX,
  LISTED,
  listPlayersBehind,
  type ListQuestion,
  readListIds,
} from "../../domain/analytics/lists/list-segment.ts";
import { segmentShape } from "../../domain/evaluation/segments/membership.ts";
import { actorOf, DESIGNERS } from "../../domain/kernel/caller.ts";
import { invalid } from "../../domain/kernel/errors.ts";
import { PAGE_LIMIT_DEFAULT, PAGE_LIMIT_MAX } from "../../domain/kernel/paging.ts";
import { type AnyRoute, group } from "../route.ts";
import { analyticsRoutes, SegmentPlayerBody } from "./analytics.ts";
import {
  answerQuestion,
  anyText,
  type Asking,
  askingOf,
  asQuery,
  CohortNumber,
  ExperimentNumber,
  FrameFields,
  FunnelNumber,
  inSnapshot,
  OverviewNumber,
  question,
  RangeFields,
  RetentionNumber,
  TEXT_MAX,
  withFilters,
} from "./analytics-fields.ts";
import { analyticsFunnelRoutes, FunnelBody, funnelOf, funnelOfBody } from "./analytics-funnels.ts";
import { AfterId, Limit } from "./bodies.ts";
import { SEGMENT_GROUPS, type SegmentGroup } from "../../domain/analytics/segments.ts";
import { readFilters } from "../../domain/analytics/trend-query.ts";
import { queryChecker } from "../validate.ts";
import { ExperimentListQuery } from "./analytics-experiments.ts";
import {
  analyticsCohortRoutes,
  analyticsRetentionRoutes,
  cohortsOf,
  retentionOf,
} from "./analytics-retention.ts";

const QUESTIONS = [
  ...analyticsRoutes,
  ...analyticsRetentionRoutes,
  ...analyticsCohortRoutes,
  ...analyticsFunnelRoutes,
];

/** The operation of a question, by its id. */
export const routeOf = (id: string): AnyRoute => QUESTIONS.find((route) => route.id === id)!;

export type Check = ReturnType<typeof queryChecker>;

/** Returns what checks the parameters of a question without an operation of its own. */
export const checkerOf = (query: z.ZodType): Check => queryChecker({ query, project: "caller" } as AnyRoute);

/** What makes the questions that are not the parameters of their operation themselves. */
const QUESTIONS_OF: Readonly<Record<string, (query: never) => object>> = {
  getAnalyticsRetention: retentionOf,
  getAnalyticsCohorts: cohortsOf,
  getAnalyticsFunnel: funnelOf,
};

/** Adds what is asked to the checked parameters of an operation. */
export const withQuestion = (id: string, query: object): object => ({
  ...query,
  ...QUESTIONS_OF[id]?.(query as never),
});

const made = (id: string): Check => {
  const check = queryChecker(routeOf(id));
  return async (query) => withQuestion(id, (await check(query)) as object);
};

/** What checks the parameters of questions that are made of them. */
export const QUESTION_CHECKS = {
  retention: made("getAnalyticsRetention"),
  overview: queryChecker(routeOf("getAnalyticsOverview")),
  experiments: checkerOf(ExperimentListQuery),
  cohorts: made("getAnalyticsCohorts"),
  funnels: made("getAnalyticsFunnel"),
} as const satisfies Record<string, Check>;

const SegmentNumber = z.object({
  segment: z
    .string()
    .max(40)
    .refine((text) => SEGMENT_GROUPS.some((name) => text.startsWith(`${name}:`)), {
      error: "must be a group and a segment of it, such as lifecycle:at_risk",
    }),
});

type Parameters = Record<string, unknown>;

/** What a list is of: when it is asked about, and which number. */
export type AskedList = { asking: Asking; list: ListQuestion };

/** Divides parameters into those that name the number and those of the question. */
const divide = <S extends z.ZodObject>(number: S, query: Parameters) => {
  const entries = Object.entries(query).filter(([, value]) => value !== undefined);
  const isOfNumber = ([name]: [string, unknown]): boolean => name in number.shape;
  const parsed = number.safeParse(Object.fromEntries(entries.filter(isOfNumber)));
  if (!parsed.success) {
    const [issue] = parsed.error.issues;
    throw invalid(issue!.path.join("."), issue!.message);
  }
  return {
    number: parsed.data,
    rest: Object.fromEntries(entries.filter((entry) => !isOfNumber(entry))),
  };
};

type Reader = (query: Parameters) => Promise<AskedList>;

/** Reads a list whose question has parameters of its own. */
const reader =
  (
    of: keyof typeof QUESTION_CHECKS,
    names: z.ZodObject,
    questionOf = (asked: Parameters): object => asked,
  ): Reader =>
  async (query) => {
    const { number, rest } = divide(names, query);
    const asked = (await QUESTION_CHECKS[of](rest)) as Parameters & Asking;
    const list = { of, question: questionOf(asked), number } as unknown as ListQuestion;
    return { asking: askingOf(asked), list };
  };

const READERS: Readonly<Record<(typeof LISTED)[number], Reader>> = {
  overview: reader("overview", OverviewNumber, ({ activeEvents }) => ({ activeEvents })),
  experiments: reader("experiments", ExperimentNumber, ({ ruleId, against, population }) => ({
    ruleId,
    against,
    population,
  })),
  retention: reader("retention", RetentionNumber),
  cohorts: reader("cohorts", CohortNumber),
  funnels: reader("funnels", FunnelNumber),
  segments: async (query) => {
    const { number, rest } = divide(SegmentNumber, query);
    const [name, segment] = number.segment.split(":") as [SegmentGroup, string];
    const asking = (await checkFrame(rest)) as Asking;
    const list: ListQuestion = {
      of: "segments",
      question: readFilters(rest),
      number: { group: name, segment },
    };
    return { asking: askingOf(asking), list };
  },
};

const checkFrame = checkerOf(withFilters(FrameFields.shape, "operation"));

/**
 * Reads which players are listed: the parameters of a question, and those that name one of its numbers.
 * `valuesLimit` is the `limit` of a breakdown: a page has a limit too.
 * @throws DomainError VALIDATION_ERROR
 */
export const readListQuery = async ({ of, valuesLimit, ...rest }: Parameters): Promise<AskedList> => {
  const name = LISTED.find((one) => one === of);
  if (name === undefined) throw invalid("of", `must be ${LISTED.join(", ")}`);
  return READERS[name](valuesLimit === undefined ? rest : { ...rest, limit: valuesLimit });
};

const { cursor } = AfterId.shape;

/** Of the numbers of all questions: each checks its own. */
const NumberFields = {
  metric: anyText("Of the overview: activePlayers, newPlayers, returningPlayers or totalPlayers"),
  ruleId: anyText("Of experiments: the UUID or the key of the rule"),
  group: ExperimentNumber.shape.group.optional(),
  cohort: anyText("Of retention and cohorts: the period of the row"),
  offset: RetentionNumber.shape.offset,
  returned: anyText("Of retention: false for those who did not return"),
  step: FunnelNumber.shape.step.optional(),
  state: FunnelNumber.shape.state.unwrap().optional(),
  value: FunnelNumber.shape.value,
  segment: CohortNumber.shape.segment,
  k: CohortNumber.shape.k,
};

const ListQuery = z.looseObject({
  of: z.enum(LISTED),
  ...RangeFields.shape,
  ...FrameFields.shape,
  ...NumberFields,
  cursor,
  limit: Limit,
  valuesLimit: anyText("The `limit` of a question with a breakdown, which here is that of the page"),
});

const FunnelList = z.object({
  ...FunnelBody.shape,
  ...FunnelNumber.shape,
  step: z.int().min(1).meta({ description: "From 1" }),
});

const Parameter = z.union([
  z.string().max(TEXT_MAX),
  z.number(),
  z.boolean(),
  z.array(z.string().max(1_000)).max(200),
]);

const ListBody = z
  .object({ of: z.enum(LISTED) })
  .catchall(Parameter.meta({ description: "A parameter of GET /analytics/players" }));

const PlayersBody = Envelope.extend({
  data: z.array(SegmentPlayerBody),
  pagination: z.object({
    limit: z.int(),
    total: z.int().meta({ description: "The number of all of them" }),
    nextCursor: z.uuid().nullable(),
  }),
}).meta({ id: "AnalyticsPlayers" });

type Page = { cursor?: string | undefined; limit: number };

const answerList = (app: App, projectId: string, { asking, list }: AskedList, page: Page) =>
  answerQuestion(
    app,
    { id: "players", projectId, query: asking, fields: [list, page], daysMax: Infinity },
    (work, asked) => listPlayersBehind(work, asked, list, page),
  );

/** The list of a funnel that a body asks for. */
const funnelList = (body: z.output<typeof FunnelList>): AskedList => {
  const { step, state, value } = body;
  const list: ListQuestion = { of: "funnels", question: funnelOfBody(body), number: { step, state, value } };
  return { asking: askingOf(body), list };
};

type Lists = {
  list?: z.output<typeof ListBody> | undefined;
  funnel?: z.output<typeof FunnelList> | undefined;
};

/** @throws DomainError VALIDATION_ERROR unless there is exactly one */
const readLists = ({ list, funnel }: Lists): AskedList | Promise<AskedList> => {
  if ((list === undefined) === (funnel === undefined)) throw invalid("list", "give either list or funnel");
  if (funnel) return funnelList(funnel);
  return readListQuery(asQuery(list!));
};

/** Finds who is in a list, in one snapshot. */
const findIds = (app: App, projectId: string, { asking, list }: AskedList): Promise<string[]> =>
  inSnapshot(app, async (work) =>
    readListIds(work, await ask(work, { projectId, query: asking, daysMax: Infinity }), list),
  );

/** It asks, and writes: not into a replica. */
const { readsReplica: _, ...common } = question.common;
const writing = group({
  ...common,
  access: {
    scope: "config:manage",
    roles: DESIGNERS,
    needs: { ...common.access.needs, scope: common.access.scope },
  },
});
const listing = question.with({ access: { ...common.access, scope: "players:read" } });

export const analyticsPlayersRoutes = [
  listing.get("/analytics/players", "listAnalyticsPlayers", {
    isRevalidated: true,
    summary: "List the players behind a number of analytics",
    description:
      "Takes the parameters of the question that counted them, with the asOf of its answer, and which of " +
      "its numbers. The list is as long as the number, by id.",
    query: ListQuery,
    response: PlayersBody,
    outside: async (app, { projectId, query }) => {
      const { cursor: after, limit, ...parameters } = query;
      return answerList(app, projectId, await readListQuery(parameters), { cursor: after, limit });
    },
  }),
  listing.post("/analytics/players", "queryAnalyticsPlayers", {
    takesNoIdempotencyKey: true,
    summary: "List the players at a step of a funnel with filters",
    description: "Takes the body of `POST /analytics/funnels` as `funnel`. Changes nothing.",
    body: z.object({
      funnel: FunnelList,
      cursor,
      limit: z.int().min(1).max(PAGE_LIMIT_MAX).default(PAGE_LIMIT_DEFAULT),
    }),
    example: {
      funnel: {
        period: "30d",
        window: "7d",
        steps: [
          { eventType: "user_registered" },
          { eventType: "question_asked", where: { path: "score", op: "gte", value: 1 } },
        ],
        step: 1,
        state: "dropped",
      },
      limit: 50,
    },
    response: PlayersBody,
    outside: (app, { projectId, body }) =>
      answerList(app, projectId, funnelList(body.funnel), { cursor: body.cursor, limit: body.limit }),
  }),
  writing.post("/analytics/players/segment", "createAnalyticsSegment", {
    summary: "Make a STATIC segment of the players behind a number",
    description:
      `Of more than ${LIST_AT_ONCE} players a job puts them in; a list has at most ` +
      `${LIST_SEGMENT_MAX.toLocaleString("en")}. Who is in the list later does not change the segment.`,
    body: z.object({
      key: segmentShape.shape.key,
      name: segmentShape.shape.name,
      description: segmentShape.shape.description,
      list: ListBody.optional().meta({ description: "As the parameters of GET /analytics/players" }),
      funnel: FunnelList.optional().meta({ description: "In place of list, as POST /analytics/players" }),
    }),
    example: {
      key: "came_back",
      name: "Came back after a week",
      list: {
        of: "retention",
        cohort: "2026-01-05",
        unit: "week",
        offsets: "0,1",
        offset: 1,
        asOf: "2026-02-01T00:00:00Z",
      },
    },
    status: 201,
    response: z
      .object({
        segmentId: z.uuid(),
        segmentKey: z.string(),
        players: z.int().meta({ description: "Of the list, without those who were erased" }),
        jobId: z.uuid().nullable().meta({ description: "Puts the players in; null: they are in" }),
      })
      .meta({ id: "AnalyticsListSegment" }),
    prepare: async (app, { projectId, body }) => findIds(app, projectId, await readLists(body)),
    run: (work, { projectId, body, caller, prepared }) =>
      createListSegment(work, projectId, {
        definition: { key: body.key, name: body.name, description: body.description },
        ids: prepared,
        createdBy: actorOf(caller),
      }),
  }),
];
