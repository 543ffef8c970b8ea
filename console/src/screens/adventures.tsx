import { Page } from "../ui/page.tsx";
export const Adventures = () => <Page title="Adventures">{null}</Page>;
export const AdventurePage = () => <Page title="AdventurePage">{null}</Page>;
