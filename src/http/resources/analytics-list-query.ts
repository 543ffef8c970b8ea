import { z } from "zod";
import type { FrameQuery } from "../../domain/analytics/ask.ts";
import type { CohortQuestion } from "../../domain/analytics/cohorts.ts";
import type { FunnelQuestion } from "../../domain/analytics/funnels.ts";
import { LISTED, type ListQuestion } from "../../domain/analytics/lists/list-segment.ts";
import type { RangeQuery } from "../../domain/analytics/range.ts";
import type { RetentionQuestion } from "../../domain/analytics/retention.ts";
import { SEGMENT_GROUPS, type SegmentGroup } from "../../domain/analytics/segments.ts";
import { invalid } from "../../domain/kernel/errors.ts";
import type { AnyRoute } from "../route.ts";
import { queryChecker } from "../validate.ts";
import { analyticsRoutes } from "./analytics.ts";
import { FrameFields } from "./analytics-bodies.ts";
import { analyticsCohortRoutes, cohortsOf } from "./analytics-cohorts.ts";
import { CohortNumber, FunnelNumber, RetentionNumber } from "./analytics-fields.ts";
import { analyticsFunnelRoutes, funnelOf } from "./analytics-funnels.ts";
import { analyticsRetentionRoutes, retentionOf } from "./analytics-retention.ts";

const QUESTIONS = [
  ...analyticsRoutes,
  ...analyticsRetentionRoutes,
  ...analyticsCohortRoutes,
  ...analyticsFunnelRoutes,
];

/** The operation of a question, by its id. */
export const routeOf = (id: string): AnyRoute => QUESTIONS.find((route) => route.id === id)!;

export type Check = ReturnType<typeof queryChecker>;

/** Checks the parameters of an operation whose question is made of them, and adds that. */
const made = <Q extends object>(id: string, of: (query: Q) => object): Check => {
  const check = queryChecker(routeOf(id));
  return async (query) => {
    const parsed = (await check(query)) as Q;
    return { ...parsed, ...of(parsed) };
  };
};

/** What checks the parameters of questions that are made of them. */
export const QUESTION_CHECKS = {
  retention: made("getAnalyticsRetention", retentionOf),
  cohorts: made("getAnalyticsCohorts", cohortsOf),
  funnels: made("getAnalyticsFunnel", funnelOf),
} as const satisfies Record<string, Check>;

const SegmentNumber = z.object({
  segment: z
    .string()
    .max(40)
    .refine((text) => SEGMENT_GROUPS.some((group) => text.startsWith(`${group}:`)), {
      error: "must be a group and a segment of it, such as lifecycle:at_risk",
    }),
});

type Parameters = Record<string, unknown>;
type Asking = FrameQuery & RangeQuery;

/** What a list is of: when it is asked about, and which number. */
export type AskedList = { asking: Asking; list: ListQuestion };

/** When a question is asked about, of its parameters. */
export const askingOf = ({ from, to, period, timezone, asOf, weekStart }: Asking): Asking => ({
  from,
  to,
  period,
  timezone,
  asOf,
  weekStart,
});

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

const READERS: Readonly<Record<(typeof LISTED)[number], (query: Parameters) => Promise<AskedList>>> = {
  retention: async (query) => {
    const { number, rest } = divide(RetentionNumber, query);
    const question = (await QUESTION_CHECKS.retention(rest)) as Asking & RetentionQuestion;
    return { asking: askingOf(question), list: { of: "retention", question, number } };
  },
  cohorts: async (query) => {
    const { number, rest } = divide(CohortNumber, query);
    const question = (await QUESTION_CHECKS.cohorts(rest)) as Asking & CohortQuestion;
    return { asking: askingOf(question), list: { of: "cohorts", question, number } };
  },
  funnels: async (query) => {
    const { number, rest } = divide(FunnelNumber, query);
    const question = (await QUESTION_CHECKS.funnels(rest)) as Asking & FunnelQuestion;
    return { asking: askingOf(question), list: { of: "funnels", question, number } };
  },
  segments: async (query) => {
    const { number, rest } = divide(SegmentNumber, query);
    const [group, segment] = number.segment.split(":") as [SegmentGroup, string];
    const asking = (await checkFrame(rest)) as Asking;
    return { asking: askingOf(asking), list: { of: "segments", number: { group, segment } } };
  },
};

const checkFrame = queryChecker({ query: FrameFields, project: "caller" } as AnyRoute);

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
