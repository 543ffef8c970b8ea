import { z } from "zod";
import { IsoTime } from "../../kernel/iso-time.ts";
import { canTriggerRules } from "../../kernel/events/event-types.ts";
import { EventPattern, Path } from "../language/syntax.ts";
import { CALENDAR_UNITS } from "../../kernel/zones.ts";
import { AGGREGATES } from "./aggregates.ts";
import { Filter } from "./filter.ts";

export const EVENT_TYPES_MAX = 20;
const MINUTE_SECONDS = 60;
const YEAR_SECONDS = 31_536_000;

const Source = EventPattern.refine(canTriggerRules, "is not an event type of players");

export const MetricWindow = z
  .discriminatedUnion(
    "type",
    [
      z.strictObject({ type: z.literal("LIFETIME") }),
      z.strictObject({
        type: z.literal("CALENDAR"),
        unit: z.enum(CALENDAR_UNITS),
        timezone: z.enum(["PLAYER", "PROJECT"]).default("PLAYER"),
      }),
      z.strictObject({ type: z.literal("ROLLING"), seconds: z.int().min(MINUTE_SECONDS).max(YEAR_SECONDS) }),
      z.strictObject({ type: z.literal("SINCE"), at: IsoTime }),
    ],
    { error: "must have a type of LIFETIME, CALENDAR, ROLLING or SINCE" },
  )
  .meta({ id: "MetricWindow" });

const fields = {
  eventTypes: z.array(Source).min(1).max(EVENT_TYPES_MAX),
  filter: Filter.optional().describe("Which of these events count"),
  aggregate: z.enum(AGGREGATES),
  property: Path.optional().describe("The aggregated property: required by all aggregates but count"),
};

const checkProperty = (
  { aggregate, property }: { aggregate: string; property?: string | undefined },
  context: z.RefinementCtx,
): void => {
  const refuse = (message: string) => context.addIssue({ code: "custom", path: ["property"], message });
  if (aggregate === "count" && property !== undefined) refuse("count takes no property");
  if (aggregate !== "count" && property === undefined) refuse(`${aggregate} needs a property`);
};

/** A counter of a player's events whose window is determined elsewhere, such as by a streak. */
export const WindowlessMetric = z
  .strictObject(fields)
  .superRefine(checkProperty)
  .meta({ id: "WindowlessMetric" });
export type WindowlessMetric = z.output<typeof WindowlessMetric>;

/**
 * A counter of a player's events: all of them, or those of a local calendar window, of a span of seconds, or
 * from a moment on.
 */
export const Metric = z
  .strictObject({ ...fields, window: MetricWindow.default({ type: "LIFETIME" }) })
  .superRefine(checkProperty)
  .meta({ id: "Metric" });
export type Metric = z.output<typeof Metric>;
