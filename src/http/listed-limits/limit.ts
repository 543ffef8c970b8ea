import { z } from "zod";
import type { Bucket } from "../../domain/accounts/rate-limits/limiter.ts";

export const Limit = z
  .object({
    name: z.string().meta({ example: "event.batch.events" }),
    value: z.number(),
    unit: z.enum(["bytes", "items", "levels", "ms", "requests", "steps"]),
    windowSeconds: z.int().optional().meta({ description: "Of a rate: how long a window lasts" }),
    appliesTo: z.string(),
  })
  .meta({ id: "Limit" });
export type Limit = z.infer<typeof Limit>;

/** Describes a limit as `GET /limits` shows it; `value` is the constant of the code that enforces it. */
export const limit = (name: string, value: number, unit: Limit["unit"], appliesTo: string): Limit => ({
  name,
  value,
  unit,
  appliesTo,
});

/** As `limit`, for a number per window. */
export const rate = ({ points, seconds, name }: Bucket, unit: Limit["unit"], appliesTo: string): Limit => ({
  ...limit(`rate.${name}`, points, unit, appliesTo),
  windowSeconds: seconds,
});
