/**
 * Build the screens: the modules in ui/ and the library they use become one ES module, onetool_ipy/ui/screens.js, which the
 * notebook widget serves as it is. The panel is compiled from the same modules, which are copied beside it here.
 */
const fs = require('fs');
const path = require('path');
const { rspack } = require('@rspack/core');

const PLACE = path.resolve('../onetool_ipy/ui');
const LICENSE = fs.readFileSync('node_modules/minisearch/LICENSE.txt', 'utf8').trim();

const options = {
  mode: 'production',
  context: __dirname,
  entry: './ui/index.js',
  devtool: false,
  target: ['web', 'es2022'],
  output: { path: PLACE, filename: 'screens.js', library: { type: 'module' }, module: true },
  // Names made of paths would differ from checkout to checkout.
  optimization: { moduleIds: 'natural', chunkIds: 'natural', minimizer: [new rspack.SwcJsMinimizerRspackPlugin({ extractComments: false })] },
  plugins: [
    new rspack.BannerPlugin({
      banner: `/*! Built by \`make build-lab\` from labextension/ui. It contains MiniSearch (https://github.com/lucaong/minisearch):\n\n${LICENSE}\n*/`,
      raw: true,
      stage: rspack.Compilation.PROCESS_ASSETS_STAGE_REPORT
    })
  ]
};

rspack(options, (error, stats) => {
  if (error || stats.hasErrors()) {
    console.error(error ?? stats.toString());
    process.exitCode = 1;
    return;
  }
  fs.cpSync('ui', 'lib/ui', { recursive: true });
  fs.copyFileSync(path.join(PLACE, 'style.css'), 'style/ui.css');
});
