import { DomainError } from "../errors.ts";
import type { SecretBox } from "../secret-box.ts";
import type { Mail } from "./mail.ts";

export type MailParts = {
  secretBox: SecretBox;
  mode: "smtp" | "log" | "off";
  /** Rings for a worker, once the commit is durable. */
  wake: () => void;
};

/** The outgoing mail over the tables email_logs and email_outbox. */
export const createMail = ({ mode }: MailParts): Mail => ({
  isSent: mode === "smtp",
  queue: async () => {
    if (mode === "off") {
      throw new DomainError("SERVICE_UNAVAILABLE", "This server sends no mail", {
        reason: "EMAIL_NOT_CONFIGURED",
      });
    }
    return true;
  },
});
