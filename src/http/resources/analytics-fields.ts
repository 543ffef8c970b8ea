import { z } from "zod";

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
};

/** A parameter that is a list of texts: with commas between them, or given several times. */
export const textList = ({ min = 1, max, isRepeatable = false }: ListOf) => {
  const part = z.string().max(max * (TYPE_MAX + 1));
  return z
    .union([part, z.array(part).max(max)])
    .transform((given) => [given].flat().flatMap((text) => text.split(",").map((one) => one.trim())))
    .pipe(
      z
        .array(EventType)
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

/** A list of names, given as one parameter with commas, or as several. */
export const metricList = (max: number) =>
  z
    .union([z.string().max(max * 101), z.array(z.string().max(max * 101)).max(max)])
    .transform((given) => [given].flat().flatMap((text) => text.split(",")))
    .pipe(z.array(z.string().min(1).max(100)).min(1).max(max));
