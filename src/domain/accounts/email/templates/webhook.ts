import { type MailContent, oneLine } from "../layout.ts";
import type { MailValues } from "../mail.ts";

const ABOUT_WEBHOOK = "You get this mail because you are an owner or admin of the account of this webhook.";

export const webhookFailing = (values: MailValues["webhook-failing"]): MailContent => {
  const host = oneLine(values.host);
  return {
    subject: `A webhook to ${host} is failing`,
    paragraphs: [
      `An event could not be delivered to ${host} in five attempts, and was given up. ` +
        `The webhook is ${oneLine(values.webhookId)}.`,
      `The last attempt: ${oneLine(values.error)}`,
      "It still gets new events. Its deliveries show what was sent and returned; once the endpoint " +
        "works again, failed deliveries can be sent again.",
      "If it goes on failing for five days, it is disabled.",
    ],
    remark: ABOUT_WEBHOOK,
  };
};

export const webhookDisabled = (values: MailValues["webhook-disabled"]): MailContent => {
  const host = oneLine(values.host);
  return {
    subject: `A webhook to ${host} was disabled`,
    paragraphs: [
      `The webhook ${oneLine(values.webhookId)} to ${host} gets no events any more.`,
      `Reason: ${oneLine(values.reason)}`,
      "Set it to ACTIVE once the endpoint works again; missed events can be sent again.",
    ],
    remark: ABOUT_WEBHOOK,
  };
};
