import { type MailContent, nameOf, oneLine } from "../layout.ts";
import type { MailValues } from "../mail.ts";
import type { Links } from "./template.ts";

const ABOUT_REPORT =
  "You get this mail because a scheduled report of your team names you. Whoever may change it can take you " +
  "off.";

type Run = { reportId: string; runId: string };

const linkTo = ({ reportId, runId }: Run, links: Links) => ({
  label: "Open the report",
  url: links.to("analytics", "reports", reportId, "runs", runId),
});

export const reportReady = (values: MailValues["report-ready"], links: Links): MailContent => {
  const name = nameOf(values.reportName);
  const [from, to] = [oneLine(values.from, 64), oneLine(values.to, 64)];
  const days = from === to ? from : `${from} to ${to}`;
  return {
    subject: `The report ${name} is ready`,
    paragraphs: [
      `The report ${name} of ${days} (${oneLine(values.timezone, 64)}) is ready. It is kept for a week.`,
      "You need to sign in to read it.",
    ],
    link: linkTo(values, links),
    remark: ABOUT_REPORT,
  };
};

export const reportFailed = (values: MailValues["report-failed"], links: Links): MailContent => {
  const name = nameOf(values.reportName);
  return {
    subject: `The report ${name} could not be made`,
    paragraphs: [
      `The report ${name} could not be made: ${oneLine(values.error)}`,
      "It is tried again when it is next due.",
    ],
    link: linkTo(values, links),
    remark: ABOUT_REPORT,
  };
};
