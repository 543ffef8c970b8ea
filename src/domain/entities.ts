import { PlatformAdmin } from "./admin/platform-admin.ts";
import { PlatformToken } from "./admin/platform-token.ts";
import { ApiKey } from "./api-keys/api-key.ts";
import { Session } from "./auth/session.ts";
import { User } from "./auth/user.ts";
import { BlogPost } from "./blog/blog-post.ts";
import { Definition } from "./definitions/definition.ts";
import { EmailLog } from "./email/email-log.ts";
import { Leaderboard } from "./leaderboards/leaderboard.ts";
import { Identity } from "./oauth/identity.ts";
import { Player } from "./players/player.ts";
import { Project } from "./projects/project.ts";
import { IpBlock } from "./rate-limits/ip-block.ts";
import { Rule, RuleVersion } from "./rules/rule.ts";
import { Invitation } from "./team/invitation.ts";
import { Tenant } from "./tenants/tenant.ts";
import { Webhook } from "./webhooks/webhook.ts";

/** Everything the EntityManager knows; a new entity is a line here. */
export const entities = [
  Tenant,
  User,
  Session,
  Invitation,
  Identity,
  Project,
  ApiKey,
  Player,
  Rule,
  RuleVersion,
  Leaderboard,
  Definition,
  IpBlock,
  PlatformAdmin,
  PlatformToken,
  EmailLog,
  BlogPost,
  Webhook,
];
