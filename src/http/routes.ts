import { analyticsCohortRoutes } from "./resources/analytics-cohorts.ts";
import { analyticsFunnelRoutes } from "./resources/analytics-funnels.ts";
import { analyticsRetentionRoutes } from "./resources/analytics-retention.ts";
import { analyticsExportRoutes } from "./resources/analytics-export.ts";
import { analyticsExportsRoutes } from "./resources/analytics-exports.ts";
import { analyticsExperimentRoutes } from "./resources/analytics-experiments.ts";
import { analyticsReportRunRoutes } from "./resources/analytics-report-runs.ts";
import { analyticsReportRoutes } from "./resources/analytics-reports.ts";
import { analyticsPlayersRoutes } from "./resources/analytics-players.ts";
import { analyticsRoutes } from "./resources/analytics.ts";
import { apiKeyRoutes } from "./resources/api-keys.ts";
import { auditLogRoutes } from "./resources/audit-log.ts";
import { authRoutes } from "./resources/auth.ts";
import { balanceRoutes } from "./resources/balances.ts";
import { badgeRoutes } from "./resources/badges.ts";
import { blogRoutes } from "./resources/blog.ts";
import { boostRoutes } from "./resources/boosts.ts";
import { bulkGrantRoutes } from "./resources/bulk-grants.ts";
import { chatChannelRoutes } from "./resources/chat-channels.ts";
import { chatMessageRoutes } from "./resources/chat-messages.ts";
import { chatModerationRoutes } from "./resources/chat-moderation.ts";
import { chatReportRoutes } from "./resources/chat-reports.ts";
import { chatWordListRoutes } from "./resources/chat-word-lists.ts";
import { configurationRoutes } from "./resources/configuration.ts";
import { definitionRoutes } from "./resources/definitions.ts";
import { emailLogRoutes } from "./resources/email-logs.ts";
import { bulkRevertRoutes } from "./resources/bulk-revert.ts";
import { eventRevertRoutes } from "./resources/event-revert.ts";
import { eventTypeRoutes } from "./resources/event-types.ts";
import { eventBacklogRoutes } from "./resources/event-backlog.ts";
import { eventRoutes } from "./resources/events.ts";
import { inboxRoutes } from "./resources/inbox.ts";
import { invitationRoutes } from "./resources/invitations.ts";
import { leaderboardEntryRoutes } from "./resources/leaderboard-entries.ts";
import { leaderboardPeriodRoutes } from "./resources/leaderboard-periods.ts";
import { leaderboardValueRoutes } from "./resources/leaderboard-values.ts";
import { leaderboardRoutes } from "./resources/leaderboards.ts";
import { scoreReviewRoutes } from "./resources/score-reviews.ts";
import { scoreRoutes } from "./resources/scores.ts";
import { ledgerRoutes } from "./resources/ledger.ts";
import { levelCurveRoutes } from "./resources/level-curve.ts";
import { limitRoutes } from "./resources/limits.ts";
import { lobbyCommandRoutes } from "./resources/lobby-commands.ts";
import { lobbyRoutes } from "./resources/lobbies.ts";
import { livesRoutes } from "./resources/lives.ts";
import { mfaLoginRoutes } from "./resources/mfa-login.ts";
import { mfaRoutes, superadminMfaRoutes } from "./resources/mfa.ts";
import { oauthRoutes } from "./resources/oauth.ts";
import { passwordResetRoutes } from "./resources/password-reset.ts";
import { playerHistoryRoutes } from "./resources/player-history.ts";
import { playerIdentityRoutes } from "./resources/player-identities.ts";
import { playerMergeRoutes } from "./resources/player-merge.ts";
import { playerPrivacyRoutes } from "./resources/player-privacy.ts";
import { playerRoutes } from "./resources/players.ts";
import { projectJobRoutes } from "./resources/project-jobs.ts";
import { projectRoutes } from "./resources/projects.ts";
import { rateLimitRoutes } from "./resources/rate-limits.ts";
import { registrationRoutes } from "./resources/registration.ts";
import { rewardRoutes } from "./resources/rewards.ts";
import { ruleInsightRoutes } from "./resources/rules-insight.ts";
import { ruleTrialRoutes } from "./resources/rules-trial.ts";
import { ruleRoutes } from "./resources/rules.ts";
import { segmentRoutes } from "./resources/segments.ts";
import { adventureRoutes } from "./resources/adventures.ts";
import { playerAdventureRoutes } from "./resources/player-adventures.ts";
import { playerQuestRoutes } from "./resources/player-quests.ts";
import { questInsightRoutes } from "./resources/quest-insight.ts";
import { questSubmissionRoutes } from "./resources/quest-submissions.ts";
import { questRoutes } from "./resources/quests.ts";
import { streakRoutes } from "./resources/streaks.ts";
import { domainRoutes } from "./resources/domains.ts";
import { scimSettingsRoutes } from "./resources/scim.ts";
import { ssoLoginRoutes } from "./resources/sso-login.ts";
import { ssoRoutes } from "./resources/sso.ts";
import { superadminAuthRoutes } from "./resources/superadmin-auth.ts";
import { superadminEmailRoutes } from "./resources/superadmin-email.ts";
import { superadminPlatformRoutes } from "./resources/superadmin-platform.ts";
import { superadminRoomRoutes } from "./resources/superadmin-rooms.ts";
import { superadminTenantRoutes } from "./resources/superadmin-tenants.ts";
import { superadminTokenRoutes } from "./resources/superadmin-tokens.ts";
import { superadminUserRoutes } from "./resources/superadmin-users.ts";
import { teamRoutes } from "./resources/team.ts";
import { billingRoutes } from "./resources/billing.ts";
import { tenantRoutes } from "./resources/tenant.ts";
import { webhookDeliveryRoutes } from "./resources/webhook-deliveries.ts";
import { webhookEventRoutes } from "./resources/webhook-events.ts";
import { webhookRoutes } from "./resources/webhooks.ts";
import { wsTokenRoutes } from "./resources/ws-tokens.ts";
import type { AnyRoute } from "./route.ts";

/** Every operation of the API. */
export const routes: readonly AnyRoute[] = [
  ...registrationRoutes,
  ...passwordResetRoutes,
  ...authRoutes(() => routes),
  ...mfaLoginRoutes,
  ...mfaRoutes,
  ...oauthRoutes,
  ...wsTokenRoutes,
  ...tenantRoutes,
  ...billingRoutes,
  ...teamRoutes,
  ...invitationRoutes,
  ...auditLogRoutes,
  ...projectRoutes,
  ...apiKeyRoutes,
  ...eventBacklogRoutes,
  ...eventRoutes,
  ...eventTypeRoutes,
  ...eventRevertRoutes,
  ...bulkRevertRoutes,
  ...playerIdentityRoutes,
  ...playerRoutes,
  ...playerMergeRoutes,
  ...playerHistoryRoutes,
  ...playerPrivacyRoutes,
  ...balanceRoutes,
  ...livesRoutes,
  ...boostRoutes,
  ...ledgerRoutes,
  ...analyticsRoutes,
  ...analyticsRetentionRoutes,
  ...analyticsCohortRoutes,
  ...analyticsFunnelRoutes,
  ...analyticsPlayersRoutes,
  ...analyticsExperimentRoutes,
  ...analyticsReportRoutes,
  ...analyticsReportRunRoutes,
  ...analyticsExportRoutes,
  ...analyticsExportsRoutes,
  ...leaderboardRoutes,
  ...scoreRoutes,
  ...scoreReviewRoutes,
  ...ssoRoutes,
  ...ssoLoginRoutes,
  ...scimSettingsRoutes,
  ...domainRoutes,
  ...webhookEventRoutes,
  ...webhookRoutes,
  ...webhookDeliveryRoutes,
  ...leaderboardPeriodRoutes,
  ...leaderboardEntryRoutes,
  ...leaderboardValueRoutes,
  ...ruleTrialRoutes,
  ...ruleInsightRoutes,
  ...ruleRoutes,
  ...levelCurveRoutes,
  ...definitionRoutes,
  ...badgeRoutes,
  ...rewardRoutes,
  ...inboxRoutes,
  ...bulkGrantRoutes,
  ...segmentRoutes,
  ...streakRoutes,
  ...questRoutes,
  ...questInsightRoutes,
  ...playerQuestRoutes,
  ...questSubmissionRoutes,
  ...adventureRoutes,
  ...playerAdventureRoutes,
  ...lobbyRoutes,
  ...lobbyCommandRoutes,
  ...configurationRoutes,
  ...chatChannelRoutes,
  ...chatMessageRoutes,
  ...chatModerationRoutes,
  ...chatReportRoutes,
  ...chatWordListRoutes,
  ...projectJobRoutes,
  ...limitRoutes,
  ...emailLogRoutes,
  ...rateLimitRoutes,
  ...blogRoutes,
  ...superadminAuthRoutes,
  ...superadminMfaRoutes,
  ...superadminEmailRoutes,
  ...superadminPlatformRoutes,
  ...superadminTenantRoutes,
  ...superadminTokenRoutes,
  ...superadminUserRoutes,
  ...superadminRoomRoutes,
];
