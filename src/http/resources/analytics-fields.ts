import { z } from "zod";
import type { App } from "../../app.ts";
import { GROUPS } from "../../domain/analytics/experiments/experiment.ts";
import { addZone } from "../../domain/analytics/rollups/closed-days.ts";
import { LISTED_METRICS } from "../../domain/analytics/measure-players.ts";
import { answer, type Asked, type Envelope, type FrameQuery } from "../../domain/analytics/ask.ts";
import { PERIODS, type RangeQuery, WEEK_STARTS } from "../../domain/analytics/range.ts";
import { EVERY_ROLE } from "../../domain/kernel/caller.ts";
import { isFilterName } from "../../domain/analytics/trend-query.ts";
import { SNAPSHOT } from "../../domain/kernel/cursor.ts";
import { asOneMessage } from "../../domain/kernel/statements.ts";
import { ANALYTICS } from "../../domain/kernel/timeouts.ts";
import type { Work } from "../../domain/kernel/work.ts";
import { group, Reply } from "../route.ts";

/** What operations of analytics have in common. */
export const question = group({
  tag: "Analytics",
  project: "caller",
  access: { scope: "analytics:read", roles: EVERY_ROLE, needs: { approval: true } },
  timeouts: ANALYTICS,
  isQuestion: true,
  readsReplica: true,
  errors: ["PAYMENT_REQUIRED"],
});

/** The fields of a body as a query has them. */
export const asQuery = (body: Readonly<Record<string, unknown>>): Record<string, unknown> =>
  Object.fromEntries(
    Object.entries(body)
      .filter(([, value]) => value !== undefined)
      .map(([name, value]) => [
        name,
        typeof value === "boolean" || typeof value === "number"
          ? String(value)
          : Array.isArray(value)
            ? value.join(",")
            : value,
      ]),
  );

/** Maximum length of a parameter that one of several questions has, and checks itself. */
export const TEXT_MAX = 6_000;

export const anyText = (description: string) => z.string().max(TEXT_MAX).optional().meta({ description });

/** A query of these parameters, and of filters, whose names are theirs. */
export const withFilters = <S extends z.ZodRawShape>(shape: S, whose: "operation" | "report") =>
  z.looseObject(shape).superRefine((query, context) => {
    for (const name of Object.keys(query)) {
      if (name in shape || name === "projectId" || isFilterName(name)) continue;
      context.addIssue({ code: "custom", path: [name], message: `is not a parameter of this ${whose}` });
    }
  });

/** Runs `run` in one snapshot, in which rollups tell of the first event where the range is `all`. */
export const inSnapshot = <T>(app: App, run: (work: Work) => Promise<T>): Promise<T> =>
  app.transact(async (work) => {
    await asOneMessage(work.db, SNAPSHOT);
    return run(work);
  });

const bound = (text: string) => z.string().min(1).max(40).optional().meta({ description: text });

/** When a question is asked about, and by which calendar. */
export const FrameFields = z.object({
  timezone: z.string().min(1).max(64).optional().meta({
    description: "IANA name; days are those of its calendar. Default: the project's",
    example: "UTC",
  }),
  asOf: bound(
    "Events at this time or later do not exist for the question; default: now, or where a replica is",
  ),
  weekStart: z.enum(WEEK_STARTS).optional().meta({ description: "Default: as the project's weeks begin" }),
});

export const RangeFields = z.object({
  from: bound("A local date, or a time with Z or an offset; default: 29 days before to"),
  to: bound("A local date, which is included, or a time, which is not; default: today"),
  period: z.enum(PERIODS).optional().meta({ description: "In place of from and to, up to asOf" }),
});

export const QuestionQuery = z.object({ ...RangeFields.shape, ...FrameFields.shape });

/** Says where the players behind the numbers of an answer are listed. */
export const PlayersLink = z
  .object({
    path: z.string().meta({ example: "/analytics/players" }),
    of: z.string(),
    and: z.array(z.string()).meta({ description: "Parameters that name the number" }),
  })
  .meta({
    id: "AnalyticsPlayersLink",
    description:
      "Where the players behind a number are listed: the path, with `of`, the parameters of this question, " +
      "the asOf of this answer, and those of `and`",
  });

/** @param and parameters that name a number of the question */
export const playersLink = (of: string, and: Readonly<Record<string, unknown>>) => ({
  players: { path: "/analytics/players", of, and: Object.keys(and) },
});

/** When a question is asked about. */
export type Asking = FrameQuery & RangeQuery;

/** The same of all parameters of a question. */
export const askingOf = ({ from, to, period, timezone, asOf, weekStart }: Asking): Asking => ({
  from,
  to,
  period,
  timezone,
  asOf,
  weekStart,
});

type Ask = {
  id: string;
  projectId: string;
  query: Asking;
  fields?: unknown;
  /** Of the range, where not as many as a series may have points. */
  daysMax?: number;
};

const addZoneLater =
  ({ transactAs, log }: App, projectId: string) =>
  ({ tenantId, timezone }: { tenantId: string; timezone: string }): void => {
    const transact = transactAs({ role: "web", tenantId, projectIds: [projectId] });
    void transact((work) => addZone(work, projectId, timezone)).catch((err: unknown) =>
      log.warn({ err, projectId, timezone }, "days of analytics will not be closed in a zone yet"),
    );
  };

/** Answers an operation of analytics: `compute` reads its own fields in the transaction of the question. */
export const answerQuestion = <T extends object>(
  app: App,
  { id, projectId, query, fields, daysMax }: Ask,
  compute: (work: Work, asked: Asked) => Promise<T>,
): Promise<Reply<z.output<typeof Envelope> & T>> =>
  app.transact(async (work) => {
    const key = JSON.stringify([id, query, fields]);
    const asked = { projectId, query, key, daysMax };
    const answering = { work, kept: app.questions, addZone: addZoneLater(app, projectId) };
    const body = await answer(answering, asked, (given) => compute(work, given));
    return new Reply(200, body as never);
  });

const TYPE_MAX = 100;
const PATH_TEXT_MAX = 500;

/** The exact type of an event. */
export const EventType = z.string().min(1).max(TYPE_MAX);

const LIMIT = { min: 1, max: 100, default: 10 } as const;
const LIMIT_TEXT = {
  description: "Of the breakdown's values; the others are (other), and (none) those without it",
};

/** Number of a breakdown's values, in a body. */
export const BreakdownLimit = z.int().min(LIMIT.min).max(LIMIT.max).default(LIMIT.default).meta(LIMIT_TEXT);

/** The same as a parameter. */
export const BreakdownLimitQuery = z.coerce
  .number()
  .int()
  .min(LIMIT.min)
  .max(LIMIT.max)
  .default(LIMIT.default)
  .meta(LIMIT_TEXT);

/** Where a property of an event is. */
export const PropertyPath = z.string().min(1).max(PATH_TEXT_MAX);

type ListOf = {
  min?: number;
  max: number;
  /** The same text may be in it twice. */
  isRepeatable?: boolean;
  /** Default: the exact types of events. */
  of?: z.ZodString;
};

/** A parameter that is a list of texts: with commas between them, or given several times. */
export const textList = ({ min = 1, max, isRepeatable = false, of = EventType }: ListOf) => {
  const part = z.string().max(max * (TYPE_MAX + 1));
  return z
    .union([part, z.array(part).max(max)])
    .transform((given) => [given].flat().flatMap((text) => text.split(",").map((one) => one.trim())))
    .pipe(
      z
        .array(of)
        .min(min)
        .max(max)
        .refine((texts) => isRepeatable || new Set(texts).size === texts.length, "must not repeat"),
    );
};

/** A share of something, with six decimals. */
export const rateBody = z.number().min(0).max(1);

const Cohort = z.iso
  .date()
  .optional()
  .meta({ description: "Of retention and cohorts: the period of the row", example: "2026-01-05" });
const whole = (min: number, text: string) =>
  z.coerce.number().int().min(min).optional().meta({ description: text });

/** What names a number of the overview. */
export const OverviewNumber = z.object({
  metric: z.enum(LISTED_METRICS).meta({ description: "Of the overview: whose players" }),
});

/** What names a number of an experiment. */
export const ExperimentNumber = z.object({
  group: z.enum(GROUPS).meta({ description: "Of experiments: whose players" }),
});

/** What names a number of retention. */
export const RetentionNumber = z.object({
  cohort: Cohort.unwrap(),
  offset: whole(0, "Of retention: the column; without it, the whole cohort"),
  returned: z
    .union([z.boolean(), z.enum(["true", "false"]).transform((text) => text === "true")])
    .default(true)
    .meta({
      description: "Of retention: false for those who did not return",
      override: { type: "boolean", default: true },
    }),
});

/** What names a number of cohorts. */
export const CohortNumber = z.object({
  cohort: Cohort,
  segment: z
    .string()
    .min(1)
    .max(PATH_TEXT_MAX)
    .optional()
    .meta({ description: "Of cohorts by a property: the label of the row; of segments: lifecycle:at_risk" }),
  k: whole(0, "Of cohorts: the column; without it, the whole row"),
});

/** What names a number of a funnel. */
export const FunnelNumber = z.object({
  step: z.coerce.number().int().min(1).meta({ description: "Of funnels: from 1" }),
  state: z.enum(["completed", "dropped"]).default("completed").meta({
    description: "Of funnels: dropped are those who did the step and none after it",
  }),
  value: z
    .string()
    .min(1)
    .max(PATH_TEXT_MAX)
    .optional()
    .meta({ description: "Of funnels with a breakdown: one of its values" }),
});

/** Such as `sum:<eventType>:<path>`. */
const METRIC_MAX = 700;

/** A list of metrics: with commas between them, or given several times. */
export const metricList = (max: number) =>
  z
    .union([z.string().max(max * (METRIC_MAX + 1)), z.array(z.string().max(METRIC_MAX)).max(max)])
    .transform((given) => [given].flat().flatMap((text) => text.split(",").map((one) => one.trim())))
    .pipe(z.array(z.string().min(1).max(METRIC_MAX)).min(1).max(max));
