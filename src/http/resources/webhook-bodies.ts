import { z } from "zod";
import {
  isSigningSecret,
  PATTERNS_MAX,
  SECRET_MAX,
  SECRET_MIN,
  URL_MAX,
  WEBHOOK_STATUSES,
} from "../../domain/delivery/webhooks/registration.ts";

const DESCRIPTION_MAX = 255;
const PATTERN_MAX = 120;

/** Webhooks require an approved tenant with a plan that includes them. */
export const NEEDS_WEBHOOKS = { approval: true, feature: "webhooks" } as const;

export const Url = z
  .string()
  .trim()
  .min(1)
  .max(URL_MAX)
  .meta({
    description:
      "An https address that all the world can reach. It is looked up again for each attempt, and " +
      "redirects are not followed",
    example: "https://example.com/hooks/laurel",
  });
export const Patterns = z
  .array(z.string().min(1).max(PATTERN_MAX))
  .min(1)
  .max(PATTERNS_MAX)
  .meta({
    description:
      "Types of `GET /webhooks/event-types`, `prefix.*` for all that begin so, `custom.{eventType}` for " +
      "what rules emit, or `*` for all but the noisy ones",
    example: ["player.level_up", "leaderboard.*"],
  });
export const Secret = z
  .string()
  .min(SECRET_MIN)
  .max(SECRET_MAX)
  .regex(/^[\x21-\x7e]+$/, "must be printable ASCII without blanks")
  .refine(isSigningSecret, `must have base64 of ${SECRET_MIN} bytes or more behind whsec_`)
  .meta({ description: "Signs what is sent. Default: a new one, `whsec_` and 32 random bytes in base64" });
export const Description = z.string().trim().max(DESCRIPTION_MAX).nullish();
export const ProjectOf = z
  .string()
  .max(64)
  .nullish()
  .meta({ description: "Only events of this project; null: of all but sandboxes" });

const Time = z.iso.datetime().nullable();

export const WebhookBody = z
  .object({
    id: z.uuid(),
    tenantId: z.uuid(),
    projectId: z.uuid().nullable(),
    url: z.string(),
    events: z.array(z.string()),
    description: z.string().nullable(),
    status: z.enum(WEBHOOK_STATUSES).meta({
      description:
        "FAILED: a delivery was given up since the last success; it still gets events. DISABLED: it has " +
        "failed for days, or answered 410; it gets no new ones. PAUSED: events wait, up to 72 hours",
    }),
    disabledReason: z.string().nullable(),
    secretHint: z.string().meta({ description: "The last four characters of the secret" }),
    previousSecretExpiresAt: Time.meta({ description: "Until then the old secret signs too" }),
    createdBy: z.string().nullable(),
    lastSuccessAt: Time,
    lastFailureAt: Time,
    failingSince: Time.meta({ description: "The first failed attempt since the last success" }),
    createdAt: z.iso.datetime(),
    updatedAt: z.iso.datetime(),
  })
  .meta({ id: "Webhook" });

export const MadeWebhookBody = WebhookBody.extend({
  secret: z.string().meta({ description: "Shown only here" }),
});
