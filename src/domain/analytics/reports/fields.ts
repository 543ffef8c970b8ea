import { z } from "zod";
import { SAVED_KIND_NAMES } from "./kinds.ts";
import { RelativeRange } from "./relative-range.ts";

const NAME_MAX = 100;
const DESCRIPTION_MAX = 500;
const PARAMETERS_MAX = 100;
/** Maximum bytes of the parameters of a report, as JSON. */
export const PARAMETERS_MAX_BYTES = 16_384;

export const ReportName = z.string().trim().min(1).max(NAME_MAX);
export const ReportDescription = z.string().max(DESCRIPTION_MAX).nullable();
export const ReportKind = z.enum(SAVED_KIND_NAMES);

export const ReportParameters = z
  .record(z.string().max(600), z.unknown())
  .superRefine((parameters, context) => {
    const refuse = (message: string): void => context.addIssue({ code: "custom", message });
    if (Object.keys(parameters).length > PARAMETERS_MAX) refuse(`at most ${PARAMETERS_MAX} parameters`);
    if (Buffer.byteLength(JSON.stringify(parameters)) > PARAMETERS_MAX_BYTES)
      refuse(`at most ${PARAMETERS_MAX_BYTES} bytes of JSON`);
  })
  .meta({
    description:
      "Those of the report's operation; lists may be lists. Of funnels also the body of POST " +
      "/analytics/funnels, of experiments also ruleId",
    example: { metric: "activePlayers", interval: "day" },
  });

export const ReportRange = RelativeRange.nullable().meta({
  description: "In place of from, to and period: counted back from each run",
});
