import { z } from "zod";
import {
  EXCLUSIONS_MAX,
  FUNNEL_ORDERS,
  type FunnelQuestion,
  readDuration,
  readFunnel,
  showDuration,
  STEPS_MAX,
} from "../../domain/analytics/funnels.ts";
import { readPropertyOf } from "../../domain/analytics/trend-query.ts";
import { Filter } from "../../domain/evaluation/metrics/compile.ts";
import type { App } from "../../app.ts";

import {
  answerQuestion,
  type Asking,
  askingOf,
  BreakdownLimit,
  BreakdownLimitQuery,
  EventType,
  FunnelNumber,
  PlayersLink,
  playersLink,
  PropertyPath,
  question,
  QuestionQuery,
  rateBody,
  textList,
} from "./analytics-fields.ts";
import { Envelope } from "../../domain/analytics/ask.ts";

const DAY_MS = 86_400_000;
const WINDOW_MIN_MS = 60_000;
const WINDOW_MAX_MS = 366 * DAY_MS;
const WINDOW_DEFAULT = "14d";
const LABEL_MAX = 100;

const Window = z
  .string()
  .max(40)
  .default(WINDOW_DEFAULT)
  .transform((text, context) => {
    const ms = readDuration(text);
    if (ms !== undefined && ms >= WINDOW_MIN_MS && ms <= WINDOW_MAX_MS) return ms;
    const message = "must be a duration of 1 minute to 366 days, such as 7d, 12h, 30m or P7D";
    context.addIssue({ code: "custom", message, input: text });
    return z.NEVER;
  })
  .meta({
    description: "From the first step to the last one, which may be at its very end: 7d, 12h, 30m or P7D",
    example: "7d",
    override: { type: "string", default: WINDOW_DEFAULT },
  });

const Order = z.enum(FUNNEL_ORDERS).default("ordered").meta({
  description:
    "ordered: others may lie between steps; strict: none may; any: step k counts players who did k steps",
});

const PREFIX = "properties.";

/** The short form of a filter: `{"properties.score": {"gte": 1}}`. */
const expandFilter = (given: unknown): unknown => {
  if (given === null || typeof given !== "object" || Array.isArray(given)) return given;
  const names = Object.keys(given);
  if (names.length === 0 || !names.every((name) => name.startsWith(PREFIX))) return given;
  const leaves = Object.entries(given).flatMap(([name, wanted]: [string, unknown]): unknown[] => {
    const path = name.slice(PREFIX.length);
    if (wanted === null || typeof wanted !== "object") return [{ path, op: "eq", value: wanted }];
    if (Array.isArray(wanted)) return [{ path, op: "in", value: wanted }];
    return Object.entries(wanted).map(([op, value]: [string, unknown]) => leafOf(path, op, value));
  });
  return leaves.length === 1 ? leaves[0] : { all: leaves };
};

const leafOf = (path: string, op: string, value: unknown): unknown => {
  if (op !== "exists") return { path, op, value };
  return { path, op: value === false ? "not_exists" : "exists" };
};

const Where = z.preprocess(expandFilter, Filter).meta({
  description:
    'A filter of events as metrics have it, or in short {"properties.score": {"gte": 1}}: all must match',
});

const Step = z.strictObject({
  eventType: EventType,
  where: Where.optional(),
  label: z.string().min(1).max(LABEL_MAX).optional(),
});

const Exclusion = z.strictObject({
  eventType: EventType,
  where: Where.optional(),
  fromStep: z.int().min(1).max(STEPS_MAX).optional().meta({ description: "Default: the first" }),
  toStep: z.int().min(2).max(STEPS_MAX).optional().meta({ description: "Default: the last" }),
});

/** The body that asks for a funnel. */
export const FunnelBody = z.object({
  ...QuestionQuery.shape,
  steps: z.array(Step).min(2).max(STEPS_MAX),
  window: Window,
  order: Order,
  exclude: z
    .array(Exclusion)
    .max(EXCLUSIONS_MAX)
    .default([])
    .meta({ description: "A chain with such an event between the two steps does not count" }),
  breakdown: z
    .strictObject({
      property: PropertyPath,
      attribution: z
        .enum(["first_touch"])
        .default("first_touch")
        .meta({ description: "The value is that of the first step's event" }),
      limit: BreakdownLimit,
    })
    .optional(),
});

const FunnelView = Envelope.extend({
  order: z.enum(FUNNEL_ORDERS),
  window: z.string().meta({ description: "ISO 8601" }),
  players: PlayersLink,
  steps: z.array(
    z
      .object({
        index: z.int(),
        eventType: z.string().nullable().meta({ description: "null where the order is any" }),
        label: z.string().nullable(),
        players: z.int(),
        fromStart: rateBody,
        fromPrevious: rateBody,
        dropOff: z.int().meta({ description: "Players who came no further; 0 at the last step" }),
        medianSecondsFromPrevious: z.number().nullable(),
      })
      .meta({ id: "AnalyticsFunnelStep" }),
  ),
  entered: z.int(),
  converted: z.int(),
  rate: rateBody,
  openEntries: z.int().meta({ description: "Players whose window had not ended at asOf" }),
  breakdown: z
    .array(z.object({ value: z.string(), players: z.array(z.int()).meta({ description: "By step" }) }))
    .optional(),
}).meta({ id: "AnalyticsFunnel" });

const answerFunnel = (app: App, projectId: string, asking: Asking, funnel: FunnelQuestion) => {
  const query = askingOf(asking);
  return answerQuestion(
    app,
    { id: "funnel", projectId, query, fields: funnel, daysMax: Infinity },
    async (work, asked) => ({
      ...playersLink("funnels", FunnelNumber.shape),
      ...(await readFunnel(work, asked, funnel)),
    }),
  );
};

const common = question.with({ response: FunnelView });

const FunnelQuery = QuestionQuery.extend({
  steps: textList({ min: 2, max: STEPS_MAX, isRepeatable: true }).meta({
    description: "Event types, by comma",
    example: "user_registered,question_asked",
    "x-ref": "eventType",
  }),
  window: Window,
  order: Order,
  breakdown: PropertyPath.optional().meta({ description: "A property of the first step's event" }),
  limit: BreakdownLimitQuery,
});

/** What is asked by the parameters. @throws DomainError VALIDATION_ERROR */
export const funnelOf = (query: z.output<typeof FunnelQuery>): FunnelQuestion => {
  const { steps, window, order, breakdown, limit } = query;
  return {
    steps: steps.map((eventType) => ({ eventType })),
    windowMs: window,
    order,
    exclude: [],
    breakdown: breakdown === undefined ? undefined : { path: readPropertyOf("breakdown", breakdown), limit },
  };
};

/** What is asked by a body. @throws DomainError VALIDATION_ERROR */
export const funnelOfBody = (body: z.output<typeof FunnelBody>): FunnelQuestion => {
  const { steps, window, order, exclude, breakdown } = body;
  return {
    steps,
    windowMs: window,
    order,
    exclude,
    breakdown: breakdown && {
      path: readPropertyOf("breakdown.property", breakdown.property),
      limit: breakdown.limit,
    },
  };
};

export const analyticsFunnelRoutes = [
  common.get("/analytics/funnels", "getAnalyticsFunnel", {
    isRevalidated: true,
    summary: "Get how far players come through steps",
    description:
      `The first step is in the range; the last one at most ${showDuration(14 * DAY_MS)}, or the window, ` +
      "after it. A step may be at the very time of the one before, but is another event. Of a player the " +
      "longest chain counts.",
    query: FunnelQuery,
    outside: (app, { projectId, query }) => answerFunnel(app, projectId, query, funnelOf(query)),
  }),
  common.post("/analytics/funnels", "queryAnalyticsFunnel", {
    takesNoIdempotencyKey: true,
    summary: "Get how far players come through steps with filters",
    description: "As the GET of the same path. Changes nothing.",
    body: FunnelBody,
    example: {
      period: "30d",
      window: "7d",
      steps: [
        { eventType: "user_registered" },
        { eventType: "question_asked", where: { path: "score", op: "gte", value: 1 }, label: "Asked well" },
      ],
      exclude: [{ eventType: "account_banned", fromStep: 1, toStep: 2 }],
      breakdown: { property: "plan", limit: 10 },
    },
    outside: (app, { projectId, body }) => answerFunnel(app, projectId, body, funnelOfBody(body)),
  }),
];
