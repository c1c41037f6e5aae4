// The site of the documentation, from the same files that the repository shows. `make site` copies them, and this file, to build/site.
// VitePress fails where a link leads to no page.
import { existsSync } from 'node:fs'
import { dirname, join, posix } from 'node:path'
import { fileURLToPath } from 'node:url'

const root = join(dirname(fileURLToPath(import.meta.url)), '../../..')
const source = 'https://github.com/tutti-sched/tutti/blob/main/'

// asIndex is the name of a page on the site: README.md is the index of its folder.
const asIndex = (page) => page.replace(/(^|\/)README\.md/, '$1index.md')

// headings get the names that they have on GitHub, which hack/house checks links by.
const slugify = (text) => text.trim().toLowerCase().replace(/[^\p{L}\p{N}\-_ ]/gu, '').replace(/ /g, '-')

// Links to files that are no pages lead to the source.
function links(md) {
  const open = md.renderer.rules.link_open ?? ((tokens, i, options, env, self) => self.renderToken(tokens, i, options))
  md.renderer.rules.link_open = (tokens, i, options, env, self) => {
    const href = tokens[i].attrGet('href')
    if (!/^([a-z]+:|#)/.test(href)) {
      const [path, anchor] = href.split('#')
      const file = posix.join(posix.dirname(env.relativePath), path)
      if (path.endsWith('.md')) {
        tokens[i].attrSet('href', asIndex(path) + (anchor ? '#' + anchor : ''))
      } else if (existsSync(join(root, file))) {
        tokens[i].attrSet('href', source + file)
      }
    }
    return open(tokens, i, options, env, self)
  }
}

const group = (text, items) => ({ text, items: items.map(([text, link]) => ({ text, link: '/docs/' + link })) })

export default {
  title: 'Tutti',
  description: 'A gang scheduler for Kubernetes',
  outDir: 'html',
  rewrites: asIndex,
  lastUpdated: false,
  markdown: { anchor: { slugify }, config: links, attrs: { disable: true } },
  themeConfig: {
    search: { provider: 'local' },
    outline: [2, 3],
    nav: [{ text: 'Documentation', link: '/docs/' }, { text: 'Changelog', link: '/CHANGELOG' }, { text: 'Source', link: 'https://github.com/tutti-sched/tutti' }],
    sidebar: [
      group('Jobs', [['Quickstart', 'quickstart'], ['Concepts', 'concepts'], ['Jobs', 'jobs'], ['Operators', 'operators'], ['Topology', 'topology'],
        ['Reasons', 'reasons'], ['kubectl tutti', 'kubectl-tutti'], ['API', 'api']]),
      group('The cluster', [['Installing', 'install'], ['Configuration', 'configuration'], ['Plugins', 'plugins/'], ['Operations', 'operations'],
        ['Metrics', 'metrics'], ['Upgrading', 'upgrading'], ['Security', 'security'], ['Autoscaling', 'autoscaling'], ['Isolated CPUs', 'isolcpu'],
        ['Reliability', 'reliability'], ['Benchmarks', 'benchmarks/']]),
      group('Teams', [['Queues', 'queues'], ['Tenants', 'tenants'], ['From Volcano', 'from-volcano'], ['From Kueue', 'from-kueue'], ['From KAI', 'from-kai'],
        ['From Slurm', 'from-slurm'], ['From kube-batch', 'from-kube-batch']]),
      group('Developers', [['Writing a plugin', 'writing-a-plugin'], ['Decisions', 'decisions/'], ['Invariants', 'invariants'], ['Glossary', 'glossary']])
    ]
  }
}
