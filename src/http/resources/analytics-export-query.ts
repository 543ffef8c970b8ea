import { z } from "zod";
import {
  EXPORT_FORMATS,
  type ExportFields,
  PLAYER_SEGMENTS,
  REPORT_NAMES,
  type ReportName,
  REPORTS,
} from "../../domain/analytics/exports/reports.ts";
import { isFilterName } from "../../domain/analytics/trend-query.ts";
import type { Caller } from "../../domain/kernel/caller.ts";
import { forbidden } from "../../domain/kernel/errors.ts";
import type { AnyRoute } from "../route.ts";
import { queryChecker } from "../validate.ts";
import { FrameFields, QuestionQuery } from "./analytics-bodies.ts";
import { type Check, QUESTION_CHECKS, readListQuery, routeOf } from "./analytics-list-query.ts";
import { Flag } from "./bodies.ts";

const COLUMNS_CHARS = 20_000;
const TEXT_MAX = 6_000;

/** How a file of rows is written. */
export const FileQuery = z.object({
  format: z.enum(EXPORT_FORMATS).default("json"),
  columns: z.string().min(1).max(COLUMNS_CHARS).optional().meta({
    description: "Names of columns, by comma, in the order of the file; properties.score is one too",
    example: "timestamp,externalUserId,properties.score",
  }),
  flatten: Flag.meta({ description: "CSV: a column for each property in place of one of JSON" }),
  bom: Flag.meta({ description: "CSV: begins with a byte order mark, which Excel needs to see UTF-8" }),
  raw: Flag.meta({
    description:
      "CSV: texts that spreadsheets take for formulas are written as they are, without a leading '",
  }),
});

const parameter = (description: string) => z.string().max(TEXT_MAX).optional().meta({ description });
const list = (description: string) =>
  z
    .union([z.string().max(TEXT_MAX), z.array(z.string().max(TEXT_MAX)).max(50)])
    .optional()
    .meta({ description });

/** The fields of an export beside the parameters of its report. */
const ExportFieldsQuery = z.object({ report: z.enum(REPORT_NAMES), ...FileQuery.shape });

/** Reads how a file of rows is written. */
export const fileFieldsOf = (query: z.output<typeof FileQuery>): Omit<ExportFields, "report"> => {
  const { format, columns, flatten = false, bom = false, raw = false } = query;
  return { format, columns: columns?.split(","), flatten, bom, raw };
};

/** The parameters that several reports have, and of which each checks its own. */
const ReportParameters = z.object({
  ...QuestionQuery.shape,
  weekStart: FrameFields.shape.weekStart,
  segment: parameter("Of players: such as lifecycle:at_risk"),
  of: parameter("Of players: those behind a number, as GET /analytics/players takes it"),
  metric: list("Of trends"),
  activeEvents: list("Of an overview"),
});

/** What an export is asked for by: its own fields, and any of the report's operation. */
export const ExportQuery = z.looseObject({ ...ExportFieldsQuery.shape, ...ReportParameters.shape });
type ExportQuery = z.output<typeof ExportQuery>;

/** A report without an operation of its own. */
const own = (query: z.ZodType): AnyRoute => ({ query, project: "caller" }) as AnyRoute;

const EventsQuery = z.looseObject(QuestionQuery.shape).superRefine((query, context) => {
  for (const name of Object.keys(query)) {
    if (name in QuestionQuery.shape || isFilterName(name)) continue;
    context.addIssue({ code: "custom", path: [name], message: "is not a parameter of this report" });
  }
});
const PlayersQuery = FrameFields.extend({ segment: z.enum(PLAYER_SEGMENTS).optional() });

const checkPlayers = queryChecker(own(PlayersQuery));

/** Reads which players are listed. */
const readListed = async (query: Record<string, unknown>): Promise<object> => {
  const asked = await readListQuery(query);
  return { ...asked.asking, list: asked.list };
};

/** What checks the parameters of each report: those of its operation, where it has one. */
const PARAMETERS: Readonly<Record<ReportName, Check>> = {
  events: queryChecker(own(EventsQuery)),
  players: async (query) => ("of" in query ? readListed(query) : checkPlayers(query)),
  overview: queryChecker(routeOf("getAnalyticsOverview")),
  trends: queryChecker(routeOf("getAnalyticsTrends")),
  segments: queryChecker(routeOf("getAnalyticsSegments")),
  ...QUESTION_CHECKS,
};

const OWN_NAMES: ReadonlySet<string> = new Set([...Object.keys(ExportFieldsQuery.shape), "projectId"]);

type AskedExport = { fields: ExportFields; query: Readonly<Record<string, unknown>> };

/**
 * Reads what an export is asked for by.
 * @throws DomainError VALIDATION_ERROR for a parameter that the report does not have
 */
export const readExportQuery = async (query: ExportQuery): Promise<AskedExport> => {
  const { report } = query;
  const others = Object.entries(query).filter(([name, value]) => !OWN_NAMES.has(name) && value !== undefined);
  const parsed = await PARAMETERS[report](Object.fromEntries(others));
  return {
    fields: { report, ...fileFieldsOf(query) },
    query: parsed as AskedExport["query"],
  };
};

/** The reports that a caller may export: a key needs the scope that reads the same by other operations. */
export const reportsFor = (caller: Caller): ReportName[] =>
  REPORT_NAMES.filter((name) => {
    const { scope } = REPORTS[name];
    return scope === undefined || caller.kind !== "key" || caller.scopes.includes(scope);
  });

/** @throws DomainError FORBIDDEN INSUFFICIENT_SCOPE */
export const requireReport = (caller: Caller, report: ReportName): void => {
  if (reportsFor(caller).includes(report)) return;
  const { scope } = REPORTS[report];
  throw forbidden("INSUFFICIENT_SCOPE", `The API key lacks the scope ${scope ?? ""}, which ${report} need`);
};

const Texts = z.union([z.string().max(TEXT_MAX), z.array(z.string().max(1_000)).max(200)]);
const Scalar = z.union([Texts, z.boolean(), z.number()]);

/** The same as a body: lists may be lists, and flags booleans. */
export const ExportBody = z
  .object({
    report: z.enum(REPORT_NAMES),
    format: z.enum(EXPORT_FORMATS).optional(),
    columns: Texts.optional().meta({ description: "Names of columns, in the order of the file" }),
    flatten: z.boolean().optional(),
    bom: z.boolean().optional(),
    raw: z.boolean().optional(),
  })
  .catchall(Scalar.meta({ description: "A parameter of the report's operation" }));

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
