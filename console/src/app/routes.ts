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
const player = () => import("../screens/player.tsx");
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

/** Screens of a project; those with a parameter stand before those without. */
export const PROJECT_SCREENS: Screen[] = [
  { path: "/start", title: "Get started", icon: "start", group: "Watch", component: screen(start, "Start") },
  {
    path: "/overview",
    title: "Overview",
    icon: "overview",
    group: "Watch",
    needs: "getAnalyticsOverview",
    component: screen(start, "Overview"),
  },
  {
    path: "/events/:id",
    title: "Event",
    icon: "live",
    group: "Watch",
    needs: "getEvent",
    isHidden: true,
    component: screen(events, "EventPage"),
  },
  {
    path: "/events",
    title: "Live events",
    icon: "live",
    group: "Watch",
    needs: "listEvents",
    component: screen(events, "Events"),
  },
  {
    path: "/players/:id",
    title: "Player",
    icon: "players",
    group: "Watch",
    needs: "getPlayer",
    isHidden: true,
    component: screen(player, "PlayerPage"),
  },
  {
    path: "/players",
    title: "Players",
    icon: "players",
    group: "Watch",
    needs: "listPlayers",
    component: screen(players, "Players"),
  },
  {
    path: "/rules/:id",
    title: "Rule",
    icon: "rules",
    group: "Design",
    needs: "getRule",
    isHidden: true,
    component: screen(rules, "RulePage"),
  },
  {
    path: "/rules",
    title: "Rules",
    icon: "rules",
    group: "Design",
    needs: "listRules",
    component: screen(rules, "Rules"),
  },
  {
    path: "/economy/:kind/:id",
    title: "Economy",
    icon: "economy",
    group: "Design",
    isHidden: true,
    component: screen(economy, "DefinitionPage"),
  },
  {
    path: "/economy/:kind",
    title: "Economy",
    icon: "economy",
    group: "Design",
    isHidden: true,
    component: screen(economy, "Economy"),
  },
  {
    path: "/economy",
    title: "Economy",
    icon: "economy",
    group: "Design",
    needs: "listCurrencies",
    component: screen(economy, "Economy"),
  },
  {
    path: "/quests/:id",
    title: "Quest",
    icon: "quests",
    group: "Design",
    needs: "getQuest",
    isHidden: true,
    component: screen(quests, "QuestPage"),
  },
  {
    path: "/quests",
    title: "Quests",
    icon: "quests",
    group: "Design",
    needs: "listQuests",
    component: screen(quests, "Quests"),
  },
  {
    path: "/adventures/:id",
    title: "Adventure",
    icon: "adventures",
    group: "Design",
    needs: "getAdventure",
    isHidden: true,
    component: screen(adventures, "AdventurePage"),
  },
  {
    path: "/adventures",
    title: "Adventures",
    icon: "adventures",
    group: "Design",
    needs: "listAdventures",
    component: screen(adventures, "Adventures"),
  },
  {
    path: "/leaderboards/:id",
    title: "Leaderboard",
    icon: "boards",
    group: "Play",
    needs: "getLeaderboard",
    isHidden: true,
    component: screen(boards, "LeaderboardPage"),
  },
  {
    path: "/leaderboards",
    title: "Leaderboards",
    icon: "boards",
    group: "Play",
    needs: "listLeaderboards",
    component: screen(boards, "Leaderboards"),
  },
  {
    path: "/lobbies/:id",
    title: "Lobby",
    icon: "lobbies",
    group: "Play",
    needs: "getLobby",
    isHidden: true,
    component: screen(lobbies, "LobbyPage"),
  },
  {
    path: "/lobbies",
    title: "Lobbies",
    icon: "lobbies",
    group: "Play",
    needs: "listLobbies",
    component: screen(lobbies, "Lobbies"),
  },
  {
    path: "/chat/:tab",
    title: "Chat moderation",
    icon: "chat",
    group: "Play",
    needs: "listChatReports",
    isHidden: true,
    component: screen(chat, "Chat"),
  },
  {
    path: "/chat",
    title: "Chat moderation",
    icon: "chat",
    group: "Play",
    needs: "listChatReports",
    component: screen(chat, "Chat"),
  },
  {
    path: "/analytics/:tab",
    title: "Analytics",
    icon: "analytics",
    group: "Understand",
    needs: "getAnalyticsTrends",
    isHidden: true,
    component: screen(analytics, "Analytics"),
  },
  {
    path: "/analytics",
    title: "Analytics",
    icon: "analytics",
    group: "Understand",
    needs: "getAnalyticsTrends",
    component: screen(analytics, "Analytics"),
  },
  {
    path: "/webhooks/:id",
    title: "Webhook",
    icon: "webhooks",
    group: "Connect",
    needs: "getWebhook",
    isHidden: true,
    component: screen(webhooks, "WebhookPage"),
  },
  {
    path: "/webhooks",
    title: "Webhooks",
    icon: "webhooks",
    group: "Connect",
    needs: "listWebhooks",
    component: screen(webhooks, "Webhooks"),
  },
  {
    path: "/keys",
    title: "API keys",
    icon: "keys",
    group: "Connect",
    needs: "listApiKeys",
    component: screen(project, "Keys"),
  },
  {
    path: "/project",
    title: "Project settings",
    icon: "settings",
    group: "Connect",
    needs: "getProjectSettings",
    component: screen(project, "ProjectSettings"),
  },
];

/** Screens of the account and its tenant. */
export const ACCOUNT_SCREENS: Screen[] = [
  {
    path: "/team",
    title: "Team",
    icon: "team",
    group: "Account",
    needs: "listMembers",
    component: screen(team, "Team"),
  },
  {
    path: "/settings/:tab",
    title: "Settings",
    icon: "settings",
    group: "Account",
    isHidden: true,
    component: screen(tenant, "Settings"),
  },
  {
    path: "/settings",
    title: "Settings",
    icon: "settings",
    group: "Account",
    needs: "getTenant",
    component: screen(tenant, "Settings"),
  },
  {
    path: "/audit",
    title: "Audit log",
    icon: "audit",
    group: "Account",
    needs: "listAuditLog",
    component: screen(team, "Audit"),
  },
  {
    path: "/account",
    title: "Your account",
    icon: "players",
    group: "Account",
    isHidden: true,
    component: screen(account, "AccountPage"),
  },
];

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
