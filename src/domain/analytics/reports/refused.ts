import { DomainError, invalid } from "../../kernel/errors.ts";
import type { RelativeRange } from "./relative-range.ts";

/** The field of a report that a field of its question is. */
const fieldOf = (field: string, range: RelativeRange | null): string =>
  range !== null && ["from", "to", "range"].includes(field) ? "range" : `parameters.${field}`;

/** Returns an error of a question as one of the report that asks it: with the fields of the report. */
export const asOfReport = (error: unknown, range: RelativeRange | null): unknown => {
  if (!(error instanceof DomainError)) return error;
  const { code, message, reason } = error;
  // What an experiment has no rule for is not the caller's path here.
  if (code === "NOT_FOUND" || code === "CONFLICT") return invalid("parameters.ruleId", message);
  if (code !== "VALIDATION_ERROR") return error;
  const details = error.details.map((one) => ({ ...one, field: fieldOf(one.field, range) }));
  const [first] = details;
  const text = first ? `${first.field}: ${first.message}` : message;
  return new DomainError(code, text, { details, ...(reason === undefined ? {} : { reason }) });
};
