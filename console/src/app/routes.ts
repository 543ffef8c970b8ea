import { type ComponentType, lazy } from "react";
import type { Id } from "../api/client.ts";
import type { IconName } from "../ui/icons.tsx";

export type Screen = {
  /** Below /p/:project for screens of a project, else below the console itself. */
  path: string;
  title: string;
  icon: IconName;
  group: "Watch" | "Design" | "Play" | "Understand" | "Connect" | "Account";
  /** Who may call this sees the screen. */
  needs?: Id;
  /** Shown in the navigation; others are reached from a screen. */
  isHidden?: boolean;
  component: ComponentType<any>;
};

const screen = (load: () => Promise<Record<string, ComponentType<any>>>, name: string): ComponentType<any> =>
  lazy(async () => ({ default: (await load())[name]! }));

const start = () => import("../screens/start.tsx");
const events = () => import("../screens/events.tsx");
const players = () => import("../screens/players.tsx");

const rules = () => import("../screens/rules.tsx");
const economy = () => import("../screens/economy.tsx");
const quests = () => import("../screens/quests.tsx");
const adventures = () => import("../screens/adventures.tsx");
const boards = () => import("../screens/leaderboards.tsx");
const lobbies = () => import("../screens/lobbies.tsx");
const chat = () => import("../screens/chat.tsx");
const analytics = () => import("../screens/analytics.tsx");
const webhooks = () => import("../screens/webhooks.tsx");
const project = () => import("../screens/project.tsx");
const team = () => import("../screens/team.tsx");
const account = () => import("../screens/account.tsx");
const tenant = () => import("../screens/tenant.tsx");

/** A screen that one reaches from another: its path, and who may see it. */
type Hidden = [path: string, component: ComponentType<any>, needs?: Id];
/** A screen of the navigation. */
type Shown = [
  path: string,
  component: ComponentType<any>,
  needs: Id | undefined,
  group: Screen["group"],
  icon: IconName,
  title: string,
];

const screenOf = ([path, component, needs, group, icon, title]: Hidden | Shown): Screen => ({
  path,
  component,
  ...(needs ? { needs } : {}),
  ...(group && icon && title
    ? { group, icon, title }
    : { group: "Account", icon: "players", title: "Your account", isHidden: true }),
});

/** Screens of a project; those with a parameter stand before those without. */
const PROJECT: (Hidden | Shown)[] = [
  ["/start", screen(start, "Start"), undefined, "Watch", "start", "Get started"],
  ["/overview", screen(start, "Overview"), "getAnalyticsOverview", "Watch", "overview", "Overview"],
  ["/events/:id", screen(events, "EventPage"), "getEvent"],
  ["/events", screen(events, "Events"), "listEvents", "Watch", "live", "Live events"],
  ["/players/:id", screen(players, "PlayerPage"), "getPlayer"],
  ["/players", screen(players, "Players"), "listPlayers", "Watch", "players", "Players"],
  ["/rules/:id", screen(rules, "RulePage"), "getRule"],
  ["/rules", screen(rules, "Rules"), "listRules", "Design", "rules", "Rules"],
  ["/economy/:kind/:id", screen(economy, "DefinitionPage")],
  ["/economy/:kind", screen(economy, "Economy")],
  ["/economy", screen(economy, "Economy"), "listCurrencies", "Design", "economy", "Economy"],
  ["/quests/:id", screen(quests, "QuestPage"), "getQuest"],
  ["/quests", screen(quests, "Quests"), "listQuests", "Design", "quests", "Quests"],
  ["/adventures/:id", screen(adventures, "AdventurePage"), "getAdventure"],
  ["/adventures", screen(adventures, "Adventures"), "listAdventures", "Design", "adventures", "Adventures"],
  ["/leaderboards/:id", screen(boards, "LeaderboardPage"), "getLeaderboard"],
  ["/leaderboards", screen(boards, "Leaderboards"), "listLeaderboards", "Play", "boards", "Leaderboards"],
  ["/lobbies/:id", screen(lobbies, "LobbyPage"), "getLobby"],
  ["/lobbies", screen(lobbies, "Lobbies"), "listLobbies", "Play", "lobbies", "Lobbies"],
  ["/chat/:tab", screen(chat, "Chat"), "listChatReports"],
  ["/chat", screen(chat, "Chat"), "listChatReports", "Play", "chat", "Chat moderation"],
  ["/analytics/:tab", screen(analytics, "Analytics"), "getAnalyticsTrends"],
  [
    "/analytics",
    screen(analytics, "Analytics"),
    "getAnalyticsTrends",
    "Understand",
    "analytics",
    "Analytics",
  ],
  ["/webhooks/:id", screen(webhooks, "WebhookPage"), "getWebhook"],
  ["/webhooks", screen(webhooks, "Webhooks"), "listWebhooks", "Connect", "webhooks", "Webhooks"],
  ["/keys", screen(project, "Keys"), "listApiKeys", "Connect", "keys", "API keys"],
  [
    "/project",
    screen(project, "ProjectSettings"),
    "getProjectSettings",
    "Connect",
    "settings",
    "Project settings",
  ],
];

/** Screens of the account and its tenant. */
const ACCOUNT: (Hidden | Shown)[] = [
  ["/team", screen(team, "Team"), "listMembers", "Account", "team", "Team"],
  ["/settings/:tab", screen(tenant, "Settings")],
  ["/settings", screen(tenant, "Settings"), "getTenant", "Account", "settings", "Settings"],
  ["/audit", screen(team, "Audit"), "listAuditLog", "Account", "audit", "Audit log"],
  ["/account", screen(account, "AccountPage")],
];

export const PROJECT_SCREENS = PROJECT.map(screenOf);
export const ACCOUNT_SCREENS = ACCOUNT.map(screenOf);

const auth = () => import("../screens/auth.tsx");
const join = () => import("../screens/join.tsx");

/** Pages for people who are not signed in, and those that links of mails lead to. */
export const OPEN_SCREENS: { path: string; component: ComponentType<any> }[] = [
  { path: "/register", component: screen(join, "Register") },
  { path: "/forgot-password", component: screen(join, "Forgot") },
  { path: "/reset-password", component: screen(join, "Reset") },
  { path: "/verify-email", component: screen(join, "Verify") },
  { path: "/accept-invitation", component: screen(join, "Accept") },
  { path: "/oauth", component: screen(auth, "OAuthReturn") },
];

export const SignIn = screen(auth, "SignIn");
export const CompleteProfile = screen(join, "CompleteProfile");
export const SuperAdmin = screen(() => import("../screens/superadmin.tsx"), "SuperAdmin");
export const Shell = screen(() => import("./shell.tsx"), "Shell");
