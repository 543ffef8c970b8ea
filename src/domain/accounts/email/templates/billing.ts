import { type MailContent, oneLine } from "../layout.ts";
import type { MailValues } from "../mail.ts";
import { dayOf } from "./template.ts";

const ABOUT = "You get this mail because you are an owner or admin of this account.";
/** Characters of what follows from another plan. */
const REMARKS_MAX = 1_000;

const numbersOf = ({ what, used, limit, plan }: MailValues["usage-80"]): string =>
  `Your account has used ${oneLine(used)} of the ${oneLine(limit)} ${oneLine(what)} a month that your plan ` +
  `${oneLine(plan)} includes.`;

export const usage80 = (values: MailValues["usage-80"]): MailContent => ({
  subject: `80 % of this month's ${oneLine(values.what)} are used`,
  paragraphs: [numbersOf(values), `Counting begins anew at ${oneLine(values.periodEnd, 64)}.`],
  remark: ABOUT,
});

export const usage100 = (values: MailValues["usage-100"]): MailContent => ({
  subject: `This month's ${oneLine(values.what)} are used up`,
  paragraphs: [
    numbersOf(values),
    values.refusedAbove === ""
      ? `Nothing is refused for that. Counting begins anew at ${oneLine(values.periodEnd, 64)}.`
      : `More than ${oneLine(values.refusedAbove)} are refused with status 402 until ` +
        `${oneLine(values.periodEnd, 64)}. A larger plan takes more at once.`,
  ],
  remark: ABOUT,
});

export const paymentFailed = (values: MailValues["payment-failed"]): MailContent => ({
  subject: "A payment for your plan failed",
  paragraphs: [
    `The last payment for your plan ${oneLine(values.plan)} failed. It will be tried again.`,
    `Your account keeps the plan until ${dayOf(values.keptUntil)} (${oneLine(values.keptUntil, 64)}), and ` +
      "is put on FREE then, unless it is paid. An owner can pay, or change the card, in the billing portal.",
    "Nothing of yours is deleted.",
  ],
  remark: ABOUT,
});

export const planChanged = (values: MailValues["plan-changed"]): MailContent => ({
  subject: `Your plan is now ${oneLine(values.to)}`,
  paragraphs: [
    `The plan of your account has changed from ${oneLine(values.from)} to ${oneLine(values.to)}.`,
    values.remarks === "" ? "It has room for all that you have." : oneLine(values.remarks, REMARKS_MAX),
  ],
  remark: ABOUT,
});

export const subscriptionDuplicate = (values: MailValues["subscription-duplicate"]): MailContent => ({
  subject: "A second subscription was ended",
  paragraphs: [
    "Two subscriptions of your account were paid for at once. The newer one counts; the other was ended, " +
      "and what it had left is credited to your next invoices.",
    `Ended: ${oneLine(values.subscriptions)}`,
  ],
  remark: "You get this mail because you are an owner of this account.",
});
