import type { ConfigDocument } from "../../domain/registries/configuration/diff.ts";
import type { ReportQuestions } from "../../domain/registries/configuration/import.ts";
import { DomainError } from "../../domain/kernel/errors.ts";
import { readQuestion } from "./analytics-report-query.ts";

/** Returns an error of a report with its place in the body of an import. */
const placed = (error: unknown, place: number): unknown => {
  if (!(error instanceof DomainError)) return error;
  const { code, message, reason } = error;
  const path = `document.analyticsReports.${place}`;
  const details = error.details.map(({ field, message: text }) => ({
    field: `${path}.${field}`,
    message: text,
  }));
  return new DomainError(code, `${path}: ${message}`, {
    details,
    ...(reason === undefined ? {} : { reason }),
  });
};

/**
 * Reads what the reports of a document ask, by key; none is asked.
 * @throws DomainError VALIDATION_ERROR with the place in the body
 */
export const readQuestions = async ({ analyticsReports = [] }: ConfigDocument): Promise<ReportQuestions> => {
  const questions = new Map<string, Awaited<ReturnType<typeof readQuestion>>>();
  for (const [place, { key, report, parameters, range }] of analyticsReports.entries()) {
    try {
      questions.set(key, await readQuestion({ report, parameters, range }));
    } catch (error) {
      throw placed(error, place);
    }
  }
  return questions;
};
